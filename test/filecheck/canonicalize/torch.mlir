// RUN: dlc-opt %s -p canonicalize | filecheck %s
// RUN: dlc-opt %s -p cse | filecheck %s --check-prefix CSE
// RUN: dlc-opt %s -p dce | filecheck %s --check-prefix DCE

// What gives a tensor back as it is goes; a view of another shape, a cast and a transpose of a
// square matrix stay. What nobody uses goes.

// CHECK-LABEL: func.func @main
// CHECK-NEXT:  %c = torch.aten "view.default"(self = %x)
// CHECK-NEXT:  %d = torch.aten "t.default"(self = %x)
// CHECK-NEXT:  %e = torch.aten "add.Tensor"(self = %d, other = %x)
// CHECK-NEXT:  %f = torch.aten "_to_copy.default"(self = %e)
// CHECK-NEXT:  %g = torch.aten "add.Tensor"(self = %d, other = %x)
// CHECK-NEXT:  func.return %c, %f, %g

// Equal operations are one; the arguments count.
// CSE:      %d = torch.aten "t.default"(self = %b)
// CSE-NEXT: %e = torch.aten "add.Tensor"(self = %d, other = %b) :
// CSE-NEXT: %f = torch.aten "_to_copy.default"(self = %e)
// CSE-NEXT: func.return %c, %f, %e

// DCE:     torch.aten "clone.default"(self = %x)
// DCE-NOT: torch.aten "sub.Tensor"
func.func @main(%x: tensor<4x4xf32>) -> (tensor<16xf32>, tensor<4x4xf16>, tensor<4x4xf32>) {
  %a = torch.aten "clone.default"(self = %x) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %b = torch.aten "view.default"(self = %a) {size = [4, 4]} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %c = torch.aten "view.default"(self = %b) {size = [16]} : (tensor<4x4xf32>) -> tensor<16xf32>
  %d = torch.aten "t.default"(self = %b) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %e = torch.aten "add.Tensor"(self = %d, other = %b) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %f = torch.aten "_to_copy.default"(self = %e) {dtype = "float16"} : (tensor<4x4xf32>) -> tensor<4x4xf16>
  %g = torch.aten "add.Tensor"(self = %d, other = %b) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %h = torch.aten "sub.Tensor"(self = %g, other = %b) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %i = torch.aten "sub.Tensor"(self = %g, other = %b) {alpha = 2} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  func.return %c, %f, %g : tensor<16xf32>, tensor<4x4xf16>, tensor<4x4xf32>
}
