// RUN: dlc-opt %s -p reuse-results --split-input-file | filecheck %s
// RUN: dlc-opt %s -p reuse-results --split-input-file --remarks 2>&1 >/dev/null | filecheck %s --check-prefix=SAYS

// What reads a copy of a copy is found, too, as the first ones are one by then.
// CHECK: %a = loop.kernel @exp(
// CHECK: %b = loop.kernel @half(%x: memref<8xf32> = %a)
// CHECK: } {ops = ["1 mul.Tensor", "3 mul.Tensor"], values = ["1"]}
// CHECK-NOT: @exp_1
// CHECK-NOT: @half_1
// CHECK: loop.kernel @add(%b: memref<8xf32> = %b, %d: memref<8xf32> = %b)
// SAYS: reuse-results: exp: @exp_1 would do the same
// SAYS: reuse-results: half: @half_1 would do the same
func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
  %a = loop.kernel @exp(%x: memref<8xf32> = %x) -> (%y: memref<8xf32>) {
    loop.for %i in 8 {
      %0 = loop.load %x[%i] : memref<8xf32>
      %1 = math.exp %0 : f32
      loop.store %1, %y[%i] : memref<8xf32>
    }
  } {ops = ["0 exp.default"], values = ["0"]}
  %b = loop.kernel @half(%x: memref<8xf32> = %a) -> (%y: memref<8xf32>) {
    %h = arith.constant 5.0 : f32
    loop.for %i in 8 {
      %0 = loop.load %x[%i] : memref<8xf32>
      %1 = arith.mulf %0, %h : f32
      loop.store %1, %y[%i] : memref<8xf32>
    }
  } {ops = ["1 mul.Tensor"], values = ["1"]}
  %c = loop.kernel @exp_1(%x: memref<8xf32> = %x) -> (%y: memref<8xf32>) {
    loop.for %j in 8 {
      %0 = loop.load %x[%j] : memref<8xf32>
      %1 = math.exp %0 : f32
      loop.store %1, %y[%j] : memref<8xf32>
    }
  } {ops = ["2 exp.default"], values = ["2"]}
  %d = loop.kernel @half_1(%x: memref<8xf32> = %c) -> (%y: memref<8xf32>) {
    %h = arith.constant 5.0 : f32
    loop.for %i in 8 {
      %0 = loop.load %x[%i] : memref<8xf32>
      %1 = arith.mulf %0, %h : f32
      loop.store %1, %y[%i] : memref<8xf32>
    }
  } {ops = ["3 mul.Tensor"], values = ["3"]}
  %e = loop.kernel @add(%b: memref<8xf32> = %b, %d: memref<8xf32> = %d) -> (%y: memref<8xf32>) {
    loop.for %i in 8 {
      %0 = loop.load %b[%i] : memref<8xf32>
      %1 = loop.load %d[%i] : memref<8xf32>
      %2 = arith.addf %0, %1 : f32
      loop.store %2, %y[%i] : memref<8xf32>
    }
  }
  func.return %e : tensor<8xf32>
}

// -----

// Two that are returned are two tensors.
// CHECK: loop.kernel @exp(
// CHECK: loop.kernel @exp_1(
func.func @main(%x: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  %a = loop.kernel @exp(%x: memref<8xf32> = %x) -> (%y: memref<8xf32>) {
    loop.for %i in 8 {
      %0 = loop.load %x[%i] : memref<8xf32>
      %1 = math.exp %0 : f32
      loop.store %1, %y[%i] : memref<8xf32>
    }
  }
  %b = loop.kernel @exp_1(%x: memref<8xf32> = %x) -> (%y: memref<8xf32>) {
    loop.for %i in 8 {
      %0 = loop.load %x[%i] : memref<8xf32>
      %1 = math.exp %0 : f32
      loop.store %1, %y[%i] : memref<8xf32>
    }
  }
  func.return %a, %b : tensor<8xf32>, tensor<8xf32>
}
