// Kernels and launches say which operations of the program they do, and which values they give.
// RUN: dlc-opt %s -p decompose-torch,compose-index-maps,fold-constants,lift-to-loops,canonicalize-loops,hoist-invariants,join-reduces,nest-loops,sink-epilogues,fuse-loops -o %t.mlir
// RUN: filecheck %s --input-file %t.mlir
// RUN: dlc-opt %t.mlir -p 'tileify,split-matmul-k{splits=2 combine=workspace},bind-axes,lower-stages,lower-reduces,lower-registers' | filecheck %s --check-prefix LAUNCH

// A transposed operand, a constant and a no-op view are inlined; the view does nothing in a kernel.
// CHECK: loop.kernel @matmul_add_relu(
// CHECK: } {ops = ["0 t.default", "2 matmul.default", "3 add.Tensor", "4 relu.default"], values = ["4"]}
// CHECK: } {ops = ["5 max.dim"], values = ["5"]}
// Partial sums are no value of the program.
// LAUNCH: kernel.launch @matmul_add_relu(%x, %w) {ops = ["0 t.default", "2 matmul.default", "3 add.Tensor", "4 relu.default"]} :
// LAUNCH: kernel.launch @matmul_add_relu_combine({{.*}}) {ops = ["0 t.default", "2 matmul.default", "3 add.Tensor", "4 relu.default"], values = ["4"]} :
func.func @main(%x: tensor<64x256xf32>, %w: tensor<32x256xf32>) -> (tensor<64x32xf32>, tensor<64xf32>) {
  %t = torch.aten "t.default"(self = %w) : (tensor<32x256xf32>) -> tensor<256x32xf32>
  %v = torch.aten "view.default"(self = %t) {size = [256, 32]} : (tensor<256x32xf32>) -> tensor<256x32xf32>
  %m = torch.aten "matmul.default"(self = %x, other = %v) : (tensor<64x256xf32>, tensor<256x32xf32>) -> tensor<64x32xf32>
  %a = torch.aten "add.Tensor"(self = %m) {other = 2.0} : (tensor<64x32xf32>) -> tensor<64x32xf32>
  %r = torch.aten "relu.default"(self = %a) : (tensor<64x32xf32>) -> tensor<64x32xf32>
  %top, %at = torch.aten "max.dim"(self = %r) {dim = 1} : (tensor<64x32xf32>) -> (tensor<64xf32>, tensor<64xi64>)
  func.return %r, %top : tensor<64x32xf32>, tensor<64xf32>
}
