// RUN: dlc-opt %s -p vectorize-accesses | filecheck %s
// RUN: dlc-opt %s -p vectorize-accesses --remarks 2>&1 >/dev/null | filecheck %s --check-prefix=REMARK

// A loop of one strip vanishes; one of several strips steps by strips.
// REMARK: vectorize-accesses: copies: the copy of x to a: vectors of 4
// REMARK-NEXT: vectorize-accesses: copies: the copy of a to s: vectors of 4
// REMARK-NEXT: vectorize-accesses: copies: the copy of w to a: vectors of 2
// CHECK-LABEL: kernel.func @copies
// CHECK: scf.for %o = %{{.*}} to %{{.*}} step %{{.*}} {
// CHECK-NEXT: %v = kernel.load %x[%b, %o * 1024 + %t * 4] where (%o * 1024 + %t * 4 < 1200) : memref<32x2048xf32> -> vector<4xf32>
// CHECK-NEXT: kernel.store %v, %a[%o * 4] : memref<8xf32, #kernel.local>, vector<4xf32>
// CHECK-NEXT: } {unroll}
// CHECK-NEXT: %v_1 = kernel.load %a[0] : memref<8xf32, #kernel.local> -> vector<4xf32>
// CHECK-NEXT: kernel.store %v_1, %s[%t floordiv 32, %t mod 32 * 4] where (%t mod 32 * 4 < 100) : memref<8x128xf32, #kernel.shared>, vector<4xf32>
// CHECK: kernel.load %w[%t * 8 + %o_1 * 2] : memref<2048xf32> -> vector<2xf32>
kernel.func @copies(%x: memref<32x2048xf32>, %w: memref<2048xf32> align 8) -> (%y: memref<2048xf32>) grid 32 block 256 {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  %c8 = arith.constant 8 : index
  %b = kernel.block_id
  %t = kernel.thread_id
  %s = kernel.alloc_shared : memref<8x128xf32, #kernel.shared>
  %a = kernel.alloc_local : memref<8xf32, #kernel.local>
  scf.for %o = %c0 to %c8 step %c1 {
    %v = kernel.load %x[%b, %o floordiv 4 * 1024 + %t * 4 + %o mod 4] where (%o floordiv 4 * 1024 + %t * 4 + %o mod 4 < 1200) : memref<32x2048xf32>
    kernel.store %v, %a[%o] : memref<8xf32, #kernel.local>
  } {unroll}
  scf.for %o = %c0 to %c4 step %c1 {
    %v = kernel.load %a[%o] : memref<8xf32, #kernel.local>
    kernel.store %v, %s[%t floordiv 32, %t mod 32 * 4 + %o] where (%t mod 32 * 4 + %o < 100) : memref<8x128xf32, #kernel.shared>
  } {unroll}
  scf.for %o = %c0 to %c8 step %c1 {
    %v = kernel.load %w[%t * 8 + %o] : memref<2048xf32>
    kernel.store %v, %a[%o] : memref<8xf32, #kernel.local>
  } {unroll}
}

// 16 bytes are 8 halves or 2 doubles; 8 and 4 bytes are vectors, too, and 2 are not.
// REMARK-NEXT: vectorize-accesses: types: the copy of h to a: vectors of 8
// REMARK-NEXT: vectorize-accesses: types: the copy of n to b: vectors of 2
// REMARK-NEXT: vectorize-accesses: types: the copy of o to b stays scalar: o is aligned to 2 bytes, not 16
// REMARK-NEXT: vectorize-accesses: types: the copy of q to c: vectors of 4
// REMARK-NEXT: vectorize-accesses: types: the copy of d to e: vectors of 2
// CHECK-LABEL: kernel.func @types
// CHECK: kernel.load %h[%t * 8] : memref<1024xf16> -> vector<8xf16>
// CHECK: kernel.load %n[%t * 8 + %i * 2] : memref<1024xbf16> -> vector<2xbf16>
// CHECK: kernel.load %o{{.*}} : memref<1024xbf16>{{$}}
// CHECK: kernel.load %q[%t * 4] : memref<512xi8> -> vector<4xi8>
// CHECK: kernel.load %d[%t * 2] : memref<256xf64> -> vector<2xf64>
kernel.func @types(%h: memref<1024xf16>, %n: memref<1024xbf16> align 4, %o: memref<1024xbf16> align 2, %q: memref<512xi8>, %d: memref<256xf64>) -> (%y: memref<2048xf32>) grid 1 block 128 {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c4 = arith.constant 4 : index
  %c8 = arith.constant 8 : index
  %t = kernel.thread_id
  %a = kernel.alloc_local : memref<8xf16, #kernel.local>
  %b = kernel.alloc_local : memref<8xbf16, #kernel.local>
  %c = kernel.alloc_local : memref<4xi8, #kernel.local>
  %e = kernel.alloc_local : memref<2xf64, #kernel.local>
  scf.for %i = %c0 to %c8 step %c1 {
    %v = kernel.load %h[%t * 8 + %i] : memref<1024xf16>
    kernel.store %v, %a[%i] : memref<8xf16, #kernel.local>
  } {unroll}
  scf.for %i = %c0 to %c8 step %c1 {
    %v = kernel.load %n[%t * 8 + %i] : memref<1024xbf16>
    kernel.store %v, %b[%i] : memref<8xbf16, #kernel.local>
  } {unroll}
  scf.for %i = %c0 to %c8 step %c1 {
    %v = kernel.load %o[%t * 8 + %i] : memref<1024xbf16>
    kernel.store %v, %b[%i] : memref<8xbf16, #kernel.local>
  } {unroll}
  scf.for %i = %c0 to %c4 step %c1 {
    %v = kernel.load %q[%t * 4 + %i] : memref<512xi8>
    kernel.store %v, %c[%i] : memref<4xi8, #kernel.local>
  } {unroll}
  scf.for %i = %c0 to %c2 step %c1 {
    %v = kernel.load %d[%t * 2 + %i] : memref<256xf64>
    kernel.store %v, %e[%i] : memref<2xf64, #kernel.local>
  } {unroll}
}

// What is not legal stays scalar, and the remark says why.
// REMARK: vectorize-accesses: declined: the copy of x to a stays scalar: its strips in x do not all begin at a multiple of 4
// REMARK-NEXT: vectorize-accesses: declined: the copy of x to a stays scalar: its elements are not next to each other in x
// REMARK-NEXT: vectorize-accesses: declined: the copy of x to a stays scalar: a condition can change within a strip of 4 in x
// REMARK-NEXT: vectorize-accesses: declined: the copy of w to a stays scalar: w is aligned to 4 bytes, not 16
// REMARK-NEXT: vectorize-accesses: declined: the copy of x to a stays scalar: 7 elements are not a multiple of 4
// REMARK-NEXT: vectorize-accesses: declined: the copy of a to a stays scalar: it copies within one buffer
// CHECK-LABEL: kernel.func @declined
// CHECK-NOT: vector<
kernel.func @declined(%x: memref<32x2048xf32>, %w: memref<2048xf32> align 4) -> (%y: memref<2048xf32>) grid 32 block 128 {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  %c7 = arith.constant 7 : index
  %b = kernel.block_id
  %t = kernel.thread_id
  %a = kernel.alloc_local : memref<8xf32, #kernel.local>
  scf.for %o = %c0 to %c4 step %c1 {
    %v = kernel.load %x[%b, %t * 3 + %o] : memref<32x2048xf32>
    kernel.store %v, %a[%o] : memref<8xf32, #kernel.local>
  } {unroll}
  scf.for %o = %c0 to %c4 step %c1 {
    %v = kernel.load %x[%o, %t * 4] : memref<32x2048xf32>
    kernel.store %v, %a[%o] : memref<8xf32, #kernel.local>
  } {unroll}
  scf.for %o = %c0 to %c4 step %c1 {
    %v = kernel.load %x[%b, %t * 4 + %o] where (%t * 4 + %o < 501) : memref<32x2048xf32>
    kernel.store %v, %a[%o] : memref<8xf32, #kernel.local>
  } {unroll}
  scf.for %o = %c0 to %c4 step %c1 {
    %v = kernel.load %w[%t * 4 + %o] : memref<2048xf32>
    kernel.store %v, %a[%o] : memref<8xf32, #kernel.local>
  } {unroll}
  scf.for %o = %c0 to %c7 step %c1 {
    %v = kernel.load %x[%b, %t * 4 + %o] : memref<32x2048xf32>
    kernel.store %v, %a[%o] : memref<8xf32, #kernel.local>
  } {unroll}
  scf.for %o = %c0 to %c4 step %c1 {
    %v = kernel.load %a[%o] : memref<8xf32, #kernel.local>
    kernel.store %v, %a[%o + 4] : memref<8xf32, #kernel.local>
  } {unroll}
}

// Other loops are none of its business: not unrolled, not from 0, or with more in them.
// REMARK-NOT: other
// CHECK-LABEL: kernel.func @other
// CHECK-NOT: vector<
kernel.func @other(%x: memref<2048xf32>) -> (%y: memref<2048xf32>) grid 1 block 128 {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  %c5 = arith.constant 5 : index
  %t = kernel.thread_id
  scf.for %o = %c0 to %c4 step %c1 {
    %v = kernel.load %x[%t * 4 + %o] : memref<2048xf32>
    kernel.store %v, %y[%t * 4 + %o] : memref<2048xf32>
  }
  scf.for %o = %c1 to %c5 step %c1 {
    %v = kernel.load %x[%t * 4 + %o] : memref<2048xf32>
    kernel.store %v, %y[%t * 4 + %o] : memref<2048xf32>
  } {unroll}
  scf.for %o = %c0 to %c4 step %c1 {
    %v = kernel.load %x[%t * 4 + %o] : memref<2048xf32>
    %w = arith.addf %v, %v : f32
    kernel.store %w, %y[%t * 4 + %o] : memref<2048xf32>
  } {unroll}
}

// What is rounded to halves on the way is so two at a time; other conversions are not.
// REMARK-NEXT: vectorize-accesses: rounded: the copy of a to b: vectors of 2
// CHECK-LABEL: kernel.func @rounded
// CHECK: %[[TWO:.*]] = kernel.load %a[%i * 2] : memref<4xf32, #kernel.local> -> vector<2xf32>
// CHECK-NEXT: %[[HALVES:.*]] = arith.truncf %[[TWO]] : vector<2xf32> to vector<2xbf16>
// CHECK-NEXT: kernel.store %[[HALVES]], %b[%i * 2] : memref<4xbf16, #kernel.local>, vector<2xbf16>
// CHECK: arith.truncf %{{.*}} : f64 to f32
kernel.func @rounded(%x: memref<4xf64>) -> (%y: memref<4xbf16>) grid 1 block 1 {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  %a = kernel.alloc_local : memref<4xf32, #kernel.local>
  %b = kernel.alloc_local : memref<4xbf16, #kernel.local>
  scf.for %i = %c0 to %c4 step %c1 {
    %v = kernel.load %a[%i] : memref<4xf32, #kernel.local>
    %h = arith.truncf %v : f32 to bf16
    kernel.store %h, %b[%i] : memref<4xbf16, #kernel.local>
  } {unroll}
  scf.for %i = %c0 to %c4 step %c1 {
    %v = kernel.load %x[%i] : memref<4xf64>
    %w = arith.truncf %v : f64 to f32
    kernel.store %w, %a[%i] : memref<4xf32, #kernel.local>
  } {unroll}
}
