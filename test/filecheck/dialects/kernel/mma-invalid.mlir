// RUN: dlc-opt %s --split-input-file --verify-diagnostics --parsing-diagnostics | filecheck %s

"test.op"() {shape = #kernel.mma<m16n8k32, bf16>} : () -> ()
// CHECK: expected one of <m16n8k16, f16>, <m16n8k16, bf16>, <m16n8k8, tf32>, <m16n8k32, e4m3>, <m16n8k32, e4m3_e5m2>, <m16n8k32, e5m2_e4m3>, <m16n8k32, e5m2>, <m16n8k32, s8>, <m16n8k32, s8_u8>, <m16n8k32, u8_s8>, <m16n8k32, u8>, or <m64nNk16, f16 or bf16>, <m64nNk8, tf32> or <m64nNk32, e4m3, e5m2, s8, u8 or two of these> for an N of 8, 16, 32, 48, 64, 80, 96, 112, 128, 144, 160, 176, 192, 256, found <m16n8k32, bf16>

// -----

kernel.func @factors(%x: memref<8xbf16>, %z: memref<4xf32>) -> () grid 1 block 32 {
  %a = kernel.load %x[0] : memref<8xbf16> -> vector<8xbf16>
  %c = kernel.load %z[0] : memref<4xf32> -> vector<4xf32>
  %d = kernel.mma <m16n8k16, bf16> %a, %a, %c : vector<8xbf16>, vector<8xbf16>, vector<4xf32>
}
// CHECK: expected factors of types vector<8xbf16> and vector<4xbf16> for #kernel.mma<m16n8k16, bf16>, found vector<8xbf16> and vector<8xbf16>

// -----

kernel.func @sums(%x: memref<8xbf16>) -> () grid 1 block 32 {
  %a = kernel.load %x[0] : memref<8xbf16> -> vector<8xbf16>
  %b = kernel.load %x[0] : memref<8xbf16> -> vector<4xbf16>
  %d = kernel.mma <m16n8k16, bf16> %a, %b, %b : vector<8xbf16>, vector<4xbf16>, vector<4xbf16>
}
// CHECK: expected an addend and a result of one type, vector<4xf32>, for #kernel.mma<m16n8k16, bf16>, found vector<4xbf16> and vector<4xbf16>

// -----

kernel.func @warps(%x: memref<8xf16>) -> () grid 1 block 48 {
  %a = kernel.load %x[0] : memref<8xf16> -> vector<8xf16>
  %b = kernel.load %x[0] : memref<8xf16> -> vector<4xf16>
  %d = kernel.mma <m16n8k16, f16> %a, %b, %b : vector<8xf16>, vector<4xf16>, vector<4xf16>
}
// CHECK: expected a block of whole warps, all of whose lanes meet, found one of 48 threads

// -----

kernel.func @global(%x: memref<8x8xf16>) -> () grid 1 block 32 {
  %a = kernel.ldmatrix %x[0, 0] : memref<8x8xf16> -> vector<2xf16>
}
// CHECK: expected a buffer in shared memory, found memref<8x8xf16>

// -----

kernel.func @wide() -> () grid 1 block 32 {
  %s = kernel.alloc_shared : memref<8x2xi64, #kernel.shared>
  %a = kernel.ldmatrix %s[0, 0] : memref<8x2xi64, #kernel.shared> -> vector<1xi64>
}
// CHECK: expected elements of 8, 16 or 32 bits, found i64

// -----

kernel.func @elements() -> () grid 1 block 32 {
  %s = kernel.alloc_shared : memref<8x16xf16, #kernel.shared>
  %a = kernel.ldmatrix %s[0, 0] : memref<8x16xf16, #kernel.shared> -> vector<4xbf16>
}
// CHECK: expected a vector of f16, found vector<4xbf16>

// -----

kernel.func @width() -> () grid 1 block 32 {
  %s = kernel.alloc_shared : memref<8x16xf16, #kernel.shared>
  %a = kernel.ldmatrix %s[0, 0] : memref<8x16xf16, #kernel.shared> -> vector<6xf16>
}
// CHECK: expected a vector of 4, 8 or 16 bytes, for 1, 2 or 4 matrices, found vector<6xf16>

// -----

kernel.func @turned() -> () grid 1 block 32 {
  %s = kernel.alloc_shared : memref<8x16xf32, #kernel.shared>
  %a = kernel.ldmatrix %s[0, 0] transposed : memref<8x16xf32, #kernel.shared> -> vector<2xf32>
}
// CHECK: expected elements of 16 bits to transpose, found f32

// -----

kernel.func @rows() -> () grid 1 block 32 {
  %s = kernel.alloc_shared : memref<8x16xf16, strided<[20, 1]>, #kernel.shared>
  %a = kernel.ldmatrix %s[0, 0] : memref<8x16xf16, strided<[20, 1]>, #kernel.shared> -> vector<2xf16>
}
// CHECK: expected rows of 16 bytes at multiples of 16 bytes in every row of memref<8x16xf16, strided<[20, 1]>, #kernel.shared>

// -----

kernel.func @conditions() -> () grid 1 block 32 {
  %t = kernel.thread_id
  %s = kernel.alloc_shared : memref<8x16xf16, #kernel.shared>
  %a = kernel.ldmatrix %s[%t mod 8, 0] where (%t < 8) : memref<8x16xf16, #kernel.shared> -> vector<2xf16>
}
// CHECK: expected no conditions: put the operation into an scf.if

// -----

builtin.module attributes {dlc.target = "sm_80"} {
  kernel.func @old(%x: memref<2xf16>) -> () grid 1 block 32 {
    %v = kernel.load %x[0] : memref<2xf16> -> vector<2xf16>
    %s = kernel.alloc_shared : memref<8x16xf16, #kernel.shared>
    kernel.stmatrix %v, %s[0, 0] : memref<8x16xf16, #kernel.shared>, vector<2xf16>
  }
}
// CHECK: expected a chip that stores matrices, sm_90 or later, found sm_80
