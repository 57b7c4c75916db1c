// RUN: dlc-opt %s -p 'tileify,split-matmul-k{splits=3 combine=atomic}' --split-input-file --verify-diagnostics | filecheck %s
// RUN: not dlc-opt %s -p 'tileify,split-matmul-k{splits=3 combine=atomic}' --split-input-file 2>&1 | filecheck %s --check-prefix=PLACE

// Sums that blocks cannot add up: the parts of any reduce can be combined by a second kernel.
// PLACE: error: kernel largest: split-matmul-k: its monoid is max, and atomic operations only add
// PLACE-NEXT: {{^}}split-matmul-k{splits=3 combine=atomic}
// PLACE-NEXT: {{^}}                        ^^^^^^^
// PLACE-NEXT: hint: combine=workspace takes any reduce
// CHECK: kernel largest: split-matmul-k: its monoid is max, and atomic operations only add
%x = "test.op"() : () -> tensor<50xf32>
%M = loop.kernel @largest(%x: memref<50xf32> = %x) -> (%M: memref<f32>) {
  %m = loop.reduce max %k in 50 -> f32 {
    %a = loop.load %x[%k] : memref<50xf32>
    loop.yield %a : f32
  }
  loop.store %m, %M[] : memref<f32>
}

// -----

// CHECK: kernel long: split-matmul-k: its sum is of type i16, and atomic adds are of f32, f64, i32 or i64
%n = "test.op"() : () -> tensor<50xi16>
%L = loop.kernel @long(%n: memref<50xi16> = %n) -> (%L: memref<i16>) {
  %s = loop.reduce add %k in 50 -> i16 {
    %a = loop.load %n[%k] : memref<50xi16>
    loop.yield %a : i16
  }
  loop.store %s, %L[] : memref<i16>
}

// -----

// CHECK: kernel epilogue: split-matmul-k: it stores more than its sum, or not the sum itself, for which the parts have to be added up before
%x = "test.op"() : () -> tensor<50xf32>
%E = loop.kernel @epilogue(%x: memref<50xf32> = %x) -> (%E: memref<f32>) {
  %s = loop.reduce add %k in 50 -> f32 {
    %a = loop.load %x[%k] : memref<50xf32>
    loop.yield %a : f32
  }
  %e = math.exp %s : f32
  loop.store %e, %E[] : memref<f32>
}

// -----

// CHECK: kernel twice: split-matmul-k: it stores more than its sum, or not the sum itself
%x = "test.op"() : () -> tensor<50xf32>
%S, %T = loop.kernel @twice(%x: memref<50xf32> = %x) -> (%S: memref<f32>, %T: memref<f32>) {
  %s = loop.reduce add %k in 50 -> f32 {
    %a = loop.load %x[%k] : memref<50xf32>
    loop.yield %a : f32
  }
  loop.store %s, %S[] : memref<f32>
  loop.store %s, %T[] : memref<f32>
}

// -----

// CHECK: kernel spread: split-matmul-k: atomic adds need each element to be stored at one point, unconditionally, and a store at 1 points is to 4 elements
%x = "test.op"() : () -> tensor<50xf32>
%Y = loop.kernel @spread(%x: memref<50xf32> = %x) -> (%Y: memref<4xf32>) {
  %s = loop.reduce add %k in 50 -> f32 {
    %a = loop.load %x[%k] : memref<50xf32>
    loop.yield %a : f32
  }
  loop.for %c in 4 {
    loop.store %s, %Y[%c] : memref<4xf32>
  }
}

// -----

// CHECK: kernel inside: split-matmul-k: atomic adds need each element to be stored at one point, unconditionally, and a store at 8 points is to 4 elements
%x = "test.op"() : () -> tensor<50xf32>
%Z = loop.kernel @inside(%x: memref<50xf32> = %x) -> (%Z: memref<4xf32>) {
  loop.for %c in 8 {
    %s = loop.reduce add %k in 43 -> f32 {
      %a = loop.load %x[%k + %c] : memref<50xf32>
      loop.yield %a : f32
    }
    loop.store %s, %Z[%c - 2] where (%c >= 2, %c < 6) : memref<4xf32>
  }
}
