// RUN: dlc-opt %s -p 'tileify,chunk-matmul-k{bk=8}' | filecheck %s
// RUN: dlc-opt %s -p 'tileify,chunk-matmul-k{bk=8}' --remarks 2>&1 >/dev/null | filecheck %s --check-prefix=REMARK

// Exponents that are products with a number are those of powers of 2 with another number, masked or
// not; the largest is multiplied with ln 2 behind.
// REMARK: chunk-matmul-k: scaled: keys in chunks of 8, of which the largest is found first; powers of 2, which cost a product less
// CHECK-LABEL: tile.kernel @scaled
// CHECK: %max, %sum, %out = tile.reduce exp2sum serial(%ko in 2)
// CHECK: %[[BY:.*]] = arith.constant 0.721347511 : f32
// CHECK-NEXT: arith.mulf %{{.*}}, %[[BY]] : f32
// CHECK-NEXT: tile.select %{{.*}} where (%row - %ko * 8 - %ki >= 0)
// CHECK: math.exp2_below
// CHECK: %[[LN2:.*]] = arith.constant 0.693147182 : f32
// CHECK-NEXT: %[[MAX:.*]] = arith.mulf %max, %[[LN2]] : f32
// CHECK: arith.addf %{{.*}}, %[[MAX]] : f32
%q = "test.op"() : () -> tensor<16x16xf32>
%v = "test.op"() : () -> tensor<16x8xf32>
%o = loop.kernel @scaled(%q: memref<16x16xf32> = %q, %v: memref<16x8xf32> = %v) -> (%o: memref<16x8xf32>) {
  %one = arith.constant 1.0 : f32
  %two = arith.constant 2.0 : f32
  %least = arith.constant 0xff800000 : f32
  loop.for %row in 16, %c in 8 {
    %max, %sum, %out = loop.reduce expsum %k in 16 -> (f32, f32, f32) {
      %a = loop.load %q[%row, %k] : memref<16x16xf32>
      %scores = arith.divf %a, %two : f32
      %masked = loop.select %scores where (%row >= %k) else %least : f32
      %w = loop.load %v[%k, %c] : memref<16x8xf32>
      loop.yield %masked, %one, %w : f32, f32, f32
    }
    %r = arith.divf %out, %sum : f32
    %s = arith.addf %r, %max : f32
    loop.store %s, %o[%row, %c] : memref<16x8xf32>
  }
}

// What is no product, as where a mask is added, stays: what is 1.44 times as large may be infinite. So
// does what is multiplied with more than ln 2.
// REMARK: chunk-matmul-k: added: keys in chunks of 8, of which the largest is found first{{$}}
// CHECK-LABEL: tile.kernel @added
// CHECK: tile.reduce expsum serial(%ko in 2)
// CHECK: math.exp_below
%p = loop.kernel @added(%q: memref<16x16xf32> = %q, %v: memref<16x8xf32> = %v) -> (%o: memref<16x8xf32>) {
  %one = arith.constant 1.0 : f32
  %half = arith.constant 0.5 : f32
  loop.for %row in 16, %c in 8 {
    %max, %sum, %out = loop.reduce expsum %k in 16 -> (f32, f32, f32) {
      %a = loop.load %q[%row, %k] : memref<16x16xf32>
      %b = arith.mulf %a, %half : f32
      %scores = arith.addf %b, %a : f32
      %w = loop.load %v[%k, %c] : memref<16x8xf32>
      loop.yield %scores, %one, %w : f32, f32, f32
    }
    %r = arith.divf %out, %sum : f32
    loop.store %r, %o[%row, %c] : memref<16x8xf32>
  }
}
%s = loop.kernel @large(%q: memref<16x16xf32> = %q, %v: memref<16x8xf32> = %v) -> (%o: memref<16x8xf32>) {
  %one = arith.constant 1.0 : f32
  %by = arith.constant 0.7 : f32
  loop.for %row in 16, %c in 8 {
    %max, %sum, %out = loop.reduce expsum %k in 16 -> (f32, f32, f32) {
      %a = loop.load %q[%row, %k] : memref<16x16xf32>
      %scores = arith.mulf %a, %by : f32
      %w = loop.load %v[%k, %c] : memref<16x8xf32>
      loop.yield %scores, %one, %w : f32, f32, f32
    }
    %r = arith.divf %out, %sum : f32
    loop.store %r, %o[%row, %c] : memref<16x8xf32>
  }
}
// CHECK-LABEL: tile.kernel @large
// CHECK: tile.reduce expsum serial(%ko in 2)
