// RUN: dlc-opt %s -p decompose-torch --split-input-file --verify-diagnostics | filecheck %s

// Every unsupported operation is named at once, those of a known name with the reason.

// CHECK: 3 operations are not supported: aten.made_up.default ({{.*}}:7: nobody has written it yet), aten.bernoulli.default ({{.*}}:9: it draws random numbers; draw them outside and pass them as an argument), aten.dropout.default ({{.*}}:10: it draws random numbers; call the module's eval() first)
func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  %a = torch.aten "made_up.default"(self = %x) : (tensor<4xf32>) -> tensor<4xf32>
  %b = torch.aten "relu.default"(self = %a) : (tensor<4xf32>) -> tensor<4xf32>
  %c = torch.aten "bernoulli.default"(self = %b) : (tensor<4xf32>) -> tensor<4xf32>
  %d = torch.aten "dropout.default"(input = %c) {p = 0.5, train = true} : (tensor<4xf32>) -> tensor<4xf32>
  func.return %d : tensor<4xf32>
}

// -----

// CHECK: 1 operation is not supported: aten.tanh.default ({{.*}}it is not compiled for complex numbers)
func.func @complex(%x: tensor<4x2xf32>) -> tensor<4xf32> {
  %z = torch.aten "view_as_complex.default"(self = %x) : (tensor<4x2xf32>) -> tensor<4xcomplex<f32>>
  %y = torch.aten "tanh.default"(self = %z) : (tensor<4xcomplex<f32>>) -> tensor<4xcomplex<f32>>
  %r = torch.aten "abs.default"(self = %y) : (tensor<4xcomplex<f32>>) -> tensor<4xf32>
  func.return %r : tensor<4xf32>
}
