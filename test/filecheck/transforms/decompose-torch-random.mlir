// RUN: dlc-opt %s -p decompose-torch --split-input-file --verify-diagnostics | filecheck %s

// The state is spread over the elements, and each element's place is the offset, that of the
// operation and its own number.

// CHECK-LABEL: @uniform
// CHECK: %[[SEED:.*]] = tensor_ir.index_map () -> %rng[0] : tensor<2xi64> -> tensor<i64>
// CHECK: %[[BASE:.*]] = tensor_ir.index_map () -> %rng[1] : tensor<2xi64> -> tensor<i64>
// CHECK: tensor_ir.iota
// CHECK: %[[K:.*]] = arith.constant 7 : i64
// CHECK: %[[OWN:.*]] = arith.addi %{{.*}}, %[[K]] : i64
// CHECK: %[[PLACE:.*]] = arith.addi %{{.*}}, %[[OWN]] : i64
// CHECK: %[[BITS:.*]] = math.philox %{{.*}}, %[[PLACE]] : i64
// CHECK: arith.trunci %[[BITS]] : i64 to i32
// CHECK: arith.constant 16777215 : i32
// CHECK: arith.constant 5.96046448e-08 : f32
func.func @uniform(%rng: tensor<2xi64> {dlc.kind = "random"}) -> tensor<2x3xf32> {
  %u = torch.aten "rand.generator"(generator = %rng) {size = [2, 3], offset = 7} : (tensor<2xi64>) -> tensor<2x3xf32>
  func.return %u : tensor<2x3xf32>
}

// -----

// Normal numbers in f64 have two places each.

// CHECK-LABEL: @normal
// CHECK: arith.constant 2 : i64
// CHECK: arith.muli
// CHECK-COUNT-2: math.philox
// CHECK: math.log
// CHECK: math.sqrt
// CHECK: math.sin
func.func @normal(%rng: tensor<2xi64>) -> tensor<5xf64> {
  %n = torch.aten "randn.generator"(generator = %rng) {size = [5], offset = 0} : (tensor<2xi64>) -> tensor<5xf64>
  func.return %n : tensor<5xf64>
}

// -----

// CHECK-LABEL: @integers
// CHECK: arith.constant 13 : i64
// CHECK: arith.remui
// CHECK: arith.constant -3 : i64
func.func @integers(%rng: tensor<2xi64>) -> tensor<5xi64> {
  %n = torch.aten "randint.low_generator"(generator = %rng) {low = -3, high = 10, size = [5], offset = 0} : (tensor<2xi64>) -> tensor<5xi64>
  func.return %n : tensor<5xi64>
}

// -----

// CHECK: aten.randint.low_generator ({{.*}}expected numbers from 3 up to less than high, found high 3)
func.func @none(%rng: tensor<2xi64>) -> tensor<5xi64> {
  %n = torch.aten "randint.low_generator"(generator = %rng) {low = 3, high = 3, size = [5], offset = 0} : (tensor<2xi64>) -> tensor<5xi64>
  func.return %n : tensor<5xi64>
}
