// RUN: dlc-opt %s --split-input-file --verify-diagnostics --parsing-diagnostics | filecheck %s

func.func @f(%x: tensor<4xf32>) {
  // CHECK: expected an overload of the form "name.overload" (such as "add.Tensor"), found "relu"
  %y = torch.aten "relu"(self = %x) : (tensor<4xf32>) -> tensor<4xf32>
  func.return
}

// -----

func.func @f(%x: tensor<4xf32>) {
  // CHECK: expected one name per operand, found 2 names for 1 operands
  %y = "torch.aten"(%x) <{overload = "add.Tensor", operand_names = ["self", "other"], arguments = {}}> : (tensor<4xf32>) -> tensor<4xf32>
  func.return
}

// -----

func.func @f(%x: tensor<4xf32>) {
  // CHECK: expected an operand name of the form `argument` or `argument.position`, found "self.x"
  %y = torch.aten "add.Tensor"(self.x = %x) : (tensor<4xf32>) -> tensor<4xf32>
  func.return
}

// -----

func.func @f(%x: tensor<4xf32>) {
  // CHECK: expected unique operand names, found "self" twice
  %y = torch.aten "add.Tensor"(self = %x, self = %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  func.return
}

// -----

func.func @f(%x: tensor<4xf32>) {
  // CHECK: expected "other" to be an operand or an argument, found it as both
  %y = torch.aten "add.Tensor"(self = %x, other = %x) {other = 1} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  func.return
}

// -----

func.func @f(%x: tensor<4xf32>) {
  // CHECK: argument "other": expected a bool, an i64, an f64, a complex number, a size, a string, `unit` or a list of those, found 1 : i32
  %y = torch.aten "add.Scalar"(self = %x) {other = 1 : i32} : (tensor<4xf32>) -> tensor<4xf32>
  func.return
}

// -----

func.func @f(%x: tensor<4xf32>) {
  // CHECK: expected at least one result, found none
  torch.aten "relu.default"(self = %x) : (tensor<4xf32>) -> ()
  func.return
}

// -----

func.func @f(%x: memref<4xf32>) {
  // CHECK: operand 'tensors' at position 0 does not verify
  %y = torch.aten "relu.default"(self = %x) : (memref<4xf32>) -> tensor<4xf32>
  func.return
}
