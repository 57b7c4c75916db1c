// RUN: dlc-opt %s -p bind-axes,lower-stages,lower-reduces --split-input-file > %t
// RUN: filecheck %s --input-file %t
// RUN: dlc-opt -f mlir %t --split-input-file | diff - %t
// RUN: dlc-opt -f mlir %t -p lower-reduces --split-input-file | diff - %t
// RUN: dlc-opt %s -p bind-axes,lower-stages,lower-reduces,lower-registers,place-barriers --split-input-file > %t.whole
// RUN: dlc-opt -f mlir %t -p lower-registers,place-barriers --split-input-file | diff - %t.whole

// What loops and arrays become of that is in lower-registers.mlir.

// An accumulator has an element for each point of the register axes along which the result varies;
// a product is added by one multiply-add. A reduce that is only yielded folds in place.
// CHECK-LABEL: kernel.func @product(
// CHECK: tile.for register(%ri in 2, %rj in 4) {
// CHECK-NEXT: %[[zero:.*]] = arith.constant 0.000000e+00 : f32
// CHECK-NEXT: %acc = tile.accumulator %[[zero]] over(%ri, %rj) : f32 -> memref<2x4xf32, #kernel.local>
// CHECK-NEXT: tile.for serial(%ko in 3) {
// CHECK-NEXT: tile.for serial(%ki in 2) {
// CHECK-NEXT: %a = tile.load %A
// CHECK-NEXT: %b = tile.load %B
// CHECK-NEXT: tile.each over(%ri, %rj) {
// CHECK-NEXT: %[[old:.*]] = kernel.load %acc[%ri, %rj] : memref<2x4xf32, #kernel.local>
// CHECK-NEXT: %[[new:.*]] = math.fma %a, %b, %[[old]] : f32
// CHECK-NEXT: kernel.store %[[new]], %acc[%ri, %rj] : memref<2x4xf32, #kernel.local>
// CHECK-NEXT: }
// CHECK-NEXT: } {unroll}
// CHECK-NEXT: }
// CHECK-NEXT: %[[sum:.*]] = tile.load %acc[%ri, %rj] : memref<2x4xf32, #kernel.local>
// CHECK-NEXT: tile.store %[[sum]], %C
%A = "test.op"() : () -> tensor<16x6xf32>
%B = "test.op"() : () -> tensor<6x4xf32>
%C = tile.kernel @product(%A: memref<16x6xf32> = %A, %B: memref<6x4xf32> = %B) -> (%C: memref<16x4xf32>) {
  tile.launch thread(%tid in 8) register(%ri in 2, %rj in 4) {
    %acc = tile.reduce add serial(%ko in 3) -> f32 {
      %part = tile.reduce add serial(%ki in 2) -> f32 {
        %a = tile.load %A[%tid * 2 + %ri, %ko * 2 + %ki] : memref<16x6xf32>
        %b = tile.load %B[%ko * 2 + %ki, %rj] : memref<6x4xf32>
        %p = arith.mulf %a, %b : f32
        tile.yield %p : f32
      } {unroll}
      tile.yield %part : f32
    }
    tile.store %acc, %C[%tid * 2 + %ri, %rj] : memref<16x4xf32>
  }
}

// -----

// A condition that is the same for the whole block skips the point; another one folds the identity
// instead. A fold is at each point of the reduce's own register axes, whatever it folds.
// CHECK-LABEL: kernel.func @conditions(
// CHECK: %u = tile.accumulator %{{.*}} : f32 -> memref<f32, #kernel.local>
// CHECK-NEXT: tile.for serial(%k in 10) {
// CHECK-NEXT: %[[runs:.*]] = kernel.test where (%k + %b < 9)
// CHECK-NEXT: scf.if %[[runs]] {
// CHECK-NEXT: %a = tile.load
// CHECK-NEXT: %[[old:.*]] = kernel.load %u[] : memref<f32, #kernel.local>
// CHECK-NEXT: %[[new:.*]] = arith.addf %[[old]], %a : f32
// CHECK-NEXT: kernel.store %[[new]], %u[] : memref<f32, #kernel.local>
// CHECK: %[[low:.*]] = arith.constant 0xff800000 : f32
// CHECK-NEXT: %v = tile.accumulator %[[low]] : f32 -> memref<f32, #kernel.local>
// CHECK-NEXT: tile.for register(%r in 5) {
// CHECK-NEXT: %a_1 = tile.load
// CHECK-NEXT: tile.each over(%r) {
// CHECK-NEXT: %[[old:.*]] = kernel.load %v[]
// CHECK-NEXT: %[[other:.*]] = arith.constant 0xff800000 : f32
// CHECK-NEXT: %[[value:.*]] = kernel.select %a_1 where (%t + %r < 10) else %[[other]] : f32
// CHECK-NEXT: %[[new:.*]] = arith.maximumf %[[old]], %[[value]] : f32
// CHECK-NEXT: kernel.store %[[new]], %v[]
// CHECK: %w = tile.accumulator
// CHECK-NEXT: tile.for register(%r_1 in 5) {
// CHECK-NEXT: %a_2 = tile.load %x[%t, 0]
// CHECK-NEXT: tile.each over(%r_1) {
%x = "test.op"() : () -> tensor<8x10xf32>
%y = tile.kernel @conditions(%x: memref<8x10xf32> = %x) -> (%y: memref<4x8xf32>) {
  tile.launch block(%b in 4) thread(%t in 8) {
    %u = tile.reduce add serial(%k in 10) -> f32 {
      %a = tile.load %x[%t, %k] : memref<8x10xf32>
      tile.yield %a where (%k + %b < 9) : f32
    }
    %v = tile.reduce max register(%r in 5) -> f32 {
      %a = tile.load %x[%t, %r] : memref<8x10xf32>
      tile.yield %a where (%t + %r < 10) : f32
    }
    %w = tile.reduce add register(%r in 5) -> f32 {
      %a = tile.load %x[%t, 0] : memref<8x10xf32>
      tile.yield %a : f32
    }
    %s = arith.addf %u, %v : f32
    %z = arith.addf %s, %w : f32
    tile.store %z, %y[%b, %t] : memref<4x8xf32>
  }
}

// -----

// A product that is needed elsewhere, too, is added as it was rounded; so is one that is folded
// along more register axes than it was computed.
// CHECK-LABEL: kernel.func @rounded(
// CHECK-NOT: math.fma
// CHECK: arith.mulf %a, %a
// CHECK: arith.addf
// CHECK-NOT: math.fma
// CHECK: arith.mulf %b, %b
// CHECK: tile.each over(%i, %j)
// CHECK: arith.addf
// CHECK-NOT: math.fma
%x = "test.op"() : () -> tensor<8x4xf32>
%y, %z, %w = tile.kernel @rounded(%x: memref<8x4xf32> = %x) -> (%y: memref<1xf32>, %z: memref<8xf32>, %w: memref<4xf32>) {
  tile.launch thread(%t in 1) register(%j in 4) {
    %u = tile.reduce add serial(%k in 8) -> f32 {
      %a = tile.load %x[%k, 0] : memref<8x4xf32>
      %p = arith.mulf %a, %a : f32
      tile.store %p, %z[%k] : memref<8xf32>
      tile.yield %p : f32
    }
    tile.store %u, %y[%t] : memref<1xf32>
    %v = tile.reduce add register(%i in 8) -> f32 {
      %b = tile.load %x[%i, 0] : memref<8x4xf32>
      %q = arith.mulf %b, %b : f32
      tile.yield %q where (%i + %j < 8) : f32
    }
    tile.store %v, %w[%j] : memref<4xf32>
  }
}

// -----

// Threads of a warp exchange what they combine, warps write and read it.
// CHECK-LABEL: kernel.func @combine(
// CHECK: %s_parts = kernel.alloc_shared : memref<2x2xf32, #kernel.shared>
// CHECK-NEXT: %s_warp = kernel.alloc_local : memref<f32, #kernel.local>
// CHECK-NEXT: tile.each over(%r) {
// CHECK-NEXT: kernel.store %a, %s_warp[] : memref<f32, #kernel.local>
// CHECK-NEXT: %[[mine:.*]] = kernel.load %s_warp[]
// CHECK-NEXT: kernel.shuffle xor %[[mine]], 16 width 32 : f32
// CHECK: kernel.store %{{.*}}, %s_parts[%r, %t floordiv 32] where (%t mod 32 < 1) : memref<2x2xf32, #kernel.shared>
// CHECK-NEXT: }
// CHECK-NEXT: %s = kernel.alloc_local : memref<2xf32, #kernel.local>
// CHECK-NEXT: tile.each over(%r) {
// CHECK: kernel.store %{{.*}}, %s[%r]
// CHECK: scf.for %part
// CHECK-NEXT: kernel.load %s_parts[%r, %part]
// CHECK: } {unroll}
// CHECK-NEXT: }
// CHECK-NEXT: %[[sum:.*]] = tile.load %s[%r] : memref<2xf32, #kernel.local>
// CHECK-NEXT: tile.store %[[sum]], %y[%r] where (%t < 1) : memref<2xf32>
%x = "test.op"() : () -> tensor<2x64xf32>
%y = tile.kernel @combine(%x: memref<2x64xf32> = %x) -> (%y: memref<2xf32>) {
  tile.launch thread(%t in 64) register(%r in 2) {
    %a = tile.load %x[%r, %t] : memref<2x64xf32>
    %s = tile.combine add %a across(%t) : f32
    tile.store %s, %y[%r] : memref<2xf32>
  }
}

// -----

// One thread along an axis has nothing to fold.
// CHECK-LABEL: kernel.func @alone(
// CHECK-NOT: kernel.shuffle
// CHECK-NOT: kernel.alloc_shared
%x = "test.op"() : () -> tensor<3x4xf32>
%y = tile.kernel @alone(%x: memref<3x4xf32> = %x) -> (%y: memref<3xf32>) {
  tile.launch thread(%r in 3, %t in 1) {
    %a = tile.load %x[%r, %t] : memref<3x4xf32>
    %s = tile.combine add %a across(%t) : f32
    tile.store %s, %y[%r] : memref<3xf32>
  }
}

// -----

// (value, index) has two accumulators, which are made together.
// CHECK-LABEL: kernel.func @index(
// CHECK: %best, %place = tile.accumulator %{{.*}}, %{{.*}} over(%r) : f32, i64 -> memref<2xf32, #kernel.local>, memref<2xi64, #kernel.local>
%x = "test.op"() : () -> tensor<8x2xf32>
%y = tile.kernel @index(%x: memref<8x2xf32> = %x) -> (%y: memref<2xi64>) {
  tile.launch thread(%t in 1) register(%r in 2) {
    %best, %place = tile.reduce argmax serial(%k in 8) -> (f32, i64) {
      %a = tile.load %x[%k, %r] : memref<8x2xf32>
      %n = tile.index %k
      %i = arith.index_cast %n : index to i64
      tile.yield %a, %i : f32, i64
    }
    tile.store %place, %y[%r] : memref<2xi64>
  }
}
