// RUN: DLC_ROUNDTRIP
// RUN: DLC_GENERIC_ROUNDTRIP

// CHECK-LABEL: @rms_norm
func.func @rms_norm(%x: tensor<1x32x2048xf32>, %w: tensor<2048xf32>) -> tensor<1x32x2048xf32> {
  // CHECK: %y = torch.aten "rms_norm.default"(input = %x, weight = %w) {normalized_shape = [2048], eps = 1.000000e-06} : (tensor<1x32x2048xf32>, tensor<2048xf32>) -> tensor<1x32x2048xf32>
  // CHECK-GENERIC: %y = "torch.aten"(%x, %w) <{overload = "rms_norm.default", operand_names = ["input", "weight"], arguments = {normalized_shape = [2048 : i64], eps = 1.000000e-06 : f64}}> : (tensor<1x32x2048xf32>, tensor<2048xf32>) -> tensor<1x32x2048xf32>
  %y = torch.aten "rms_norm.default"(input = %x, weight = %w)
      {normalized_shape = [2048], eps = 1.000000e-06}
      : (tensor<1x32x2048xf32>, tensor<2048xf32>) -> tensor<1x32x2048xf32>
  func.return %y : tensor<1x32x2048xf32>
}

// Lists of tensors, with holes; several results.
// CHECK-LABEL: @lists
func.func @lists(%a: tensor<4x3xf32>, %i: tensor<2xi64>) -> tensor<4x1xf32> {
  // CHECK: %c = torch.aten "cat.default"(tensors.0 = %a, tensors.1 = %a) {dim = -1} : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x6xf32>
  %c = torch.aten "cat.default"(tensors.0 = %a, tensors.1 = %a) {dim = -1} : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x6xf32>
  // CHECK-NEXT: %g = torch.aten "index.Tensor"(self = %c, indices.1 = %i) : (tensor<4x6xf32>, tensor<2xi64>) -> tensor<4x2xf32>
  %g = torch.aten "index.Tensor"(self = %c, indices.1 = %i) : (tensor<4x6xf32>, tensor<2xi64>) -> tensor<4x2xf32>
  // CHECK-NEXT: %l, %r = torch.aten "split.Tensor"(self = %g) {split_size = 1, dim = 1} : (tensor<4x2xf32>) -> (tensor<4x1xf32>, tensor<4x1xf32>)
  %l, %r = torch.aten "split.Tensor"(self = %g) {split_size = 1, dim = 1} : (tensor<4x2xf32>) -> (tensor<4x1xf32>, tensor<4x1xf32>)
  func.return %r : tensor<4x1xf32>
}

// Every kind of argument; numbers that are not finite; attributes that are not arguments.
// CHECK-LABEL: @arguments
func.func @arguments() -> tensor<ui8> {
  // CHECK: %e = torch.aten "kinds.default"() {i = -2, t = true, f = false, third = 0.33333333333333331, big = 0x419D6F3454000000 : f64, inf = 0x7ff0000000000000 : f64, nan = 0x7ff8000000000000 : f64, dtype = "float32", none = unit, mixed = [unit, true, 1, [5.000000e-01, "a"]], empty = []} attributes {note = 1 : i32} : () -> tensor<ui8>
  %e = torch.aten "kinds.default"() {i = -2, t = true, f = false, third = 0.33333333333333331, big = 123456789.0,
    inf = 0x7FF0000000000000 : f64, nan = 0x7FF8000000000000 : f64, dtype = "float32", none, mixed = [unit, true, 1, [0.5, "a"]],
    empty = []} attributes {note = 1 : i32} : () -> tensor<ui8>
  func.return %e : tensor<ui8>
}

// Complex tensors and numbers.
// CHECK-LABEL: @complex
func.func @complex(%x: tensor<4xcomplex<f32>>) -> tensor<4xcomplex<f32>> {
  // CHECK: %y = torch.aten "mul.Tensor"(self = %x) {other = {real = 5.000000e-01 : f64, imag = -1.000000e+00 : f64}} : (tensor<4xcomplex<f32>>) -> tensor<4xcomplex<f32>>
  %y = torch.aten "mul.Tensor"(self = %x) {other = {real = 0.5 : f64, imag = -1.0 : f64}} : (tensor<4xcomplex<f32>>) -> tensor<4xcomplex<f32>>
  func.return %y : tensor<4xcomplex<f32>>
}
