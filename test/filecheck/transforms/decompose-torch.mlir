// RUN: dlc-opt %s -p decompose-torch --split-input-file | filecheck %s

// A sum of products has its contracted axis last.

// CHECK-LABEL: @matmul
// CHECK-NEXT: %a_1 = tensor_ir.index_map (d0, d1, d2) -> %a[d0, d2] : tensor<4x8xf32> -> tensor<4x5x8xf32>
// CHECK-NEXT: %b_1 = tensor_ir.index_map (d0, d1, d2) -> %b[d2, d1] : tensor<8x5xf32> -> tensor<4x5x8xf32>
// CHECK-NEXT: %product = tensor_ir.elementwise (%a_2 = %a_1, %b_2 = %b_1)
// CHECK-NEXT:   arith.mulf %a_2, %b_2 : f32
// CHECK:      %y = tensor_ir.reduce add over [2] (%product) : tensor<4x5x8xf32> -> tensor<4x5xf32>
// CHECK-NEXT: return %y
func.func @matmul(%a: tensor<4x8xf32>, %b: tensor<8x5xf32>) -> tensor<4x5xf32> {
  %y = torch.aten "mm.default"(self = %a, mat2 = %b) : (tensor<4x8xf32>, tensor<8x5xf32>) -> tensor<4x5xf32>
  func.return %y : tensor<4x5xf32>
}

// -----

// Operands broadcast through index maps; a number is a constant of the body.

// CHECK-LABEL: @broadcast
// CHECK-NEXT: %y_1 = tensor_ir.index_map (d0, d1) -> %y[d0, 0] : tensor<4x1xf32> -> tensor<4x6xf32>
// CHECK-NEXT: %z = tensor_ir.elementwise (%x_1 = %x, %y_2 = %y_1)
// CHECK-NEXT:   arith.constant 5.000000e-01 : f32
// CHECK-NEXT:   arith.mulf %y_2
// CHECK-NEXT:   arith.addf %x_1
func.func @broadcast(%x: tensor<4x6xf32>, %y: tensor<4x1xf32>) -> tensor<4x6xf32> {
  %z = torch.aten "add.Tensor"(self = %x, other = %y) {alpha = 0.5} : (tensor<4x6xf32>, tensor<4x1xf32>) -> tensor<4x6xf32>
  func.return %z : tensor<4x6xf32>
}

// -----

// Halves are calculated in f32 and rounded where memory asks for it.

// CHECK-LABEL: @halves
// CHECK-NEXT: tensor_ir.elementwise (%x_2 = %x) : tensor<4xbf16> -> tensor<4xf32>
// CHECK-NEXT:   arith.extf %x_2 {storage} : bf16 to f32
// CHECK:      %sum = tensor_ir.reduce add over [0] ({{.*}}) : tensor<4xf32> -> tensor<f32>
// CHECK-NEXT: %m = tensor_ir.elementwise (%sum_1 = %sum) : tensor<f32> -> tensor<bf16>
// CHECK:        arith.divf
// CHECK-NEXT:   arith.truncf {{.*}} {storage} : f32 to bf16
func.func @halves(%x: tensor<4xbf16>) -> tensor<bf16> {
  %m = torch.aten "mean.default"(self = %x) : (tensor<4xbf16>) -> tensor<bf16>
  func.return %m : tensor<bf16>
}

// -----

// Casts are the program's, whatever memory asks for; so are those to a narrower common type.

// CHECK-LABEL: @casts
// CHECK:        arith.extf %{{.*}} : f16 to f32
// CHECK:        arith.truncf %{{.*}} : f32 to bf16
// CHECK:        arith.truncf %{{.*}} : f32 to bf16
// CHECK-NEXT:   arith.extf %{{.*}} {storage} : bf16 to f32
func.func @casts(%x: tensor<4xf16>, %s: tensor<f32>) -> tensor<4xi1> {
  %b = torch.aten "_to_copy.default"(self = %x) {dtype = "bfloat16"} : (tensor<4xf16>) -> tensor<4xbf16>
  %m = torch.aten "gt.Tensor"(self = %b, other = %s) : (tensor<4xbf16>, tensor<f32>) -> tensor<4xi1>
  func.return %m : tensor<4xi1>
}

// -----

// Unsigned bytes are i8, and are widened as unsigned.

// CHECK-LABEL: @bytes(%x: tensor<4xi8> {dlc.dtype = "u8"}) -> (tensor<4xi8> {dlc.dtype = "u8"})
// CHECK-NEXT: tensor_ir.elementwise (%x_1 = %x) : tensor<4xi8> -> tensor<4xi8>
// CHECK-NEXT:   arith.extui %x_1 : i8 to i32
// CHECK:        arith.maxsi
// CHECK:        arith.trunci {{.*}} : i32 to i8
func.func @bytes(%x: tensor<4xui8>) -> tensor<4xui8> {
  %m = torch.aten "clamp_min.default"(self = %x) {min = 7} : (tensor<4xui8>) -> tensor<4xui8>
  func.return %m : tensor<4xui8>
}

// -----

// A reshape of dimensions that stay needs no division.

// CHECK-LABEL: @reshape
// CHECK-NEXT: tensor_ir.index_map (d0, d1, d2, d3) -> %x[d0, d1, d2 * 4 + d3]
// CHECK-NEXT: tensor_ir.index_map (d0, d1) -> %x[d0, d1 floordiv 12, d1 mod 12]
func.func @reshape(%x: tensor<2x5x12xf32>) -> (tensor<2x5x3x4xf32>, tensor<2x60xf32>) {
  %y = torch.aten "view.default"(self = %x) {size = [2, 5, 3, 4]} : (tensor<2x5x12xf32>) -> tensor<2x5x3x4xf32>
  %z = torch.aten "view.default"(self = %x) {size = [2, 60]} : (tensor<2x5x12xf32>) -> tensor<2x60xf32>
  func.return %y, %z : tensor<2x5x3x4xf32>, tensor<2x60xf32>
}

// -----

// What is moved conditionally has the rest as a final scalar, or as another source.

// CHECK-LABEL: @conditions
// CHECK-NEXT: %p = tensor_ir.index_map (d0) -> %x[d0 - 1] where (d0 >= 1, d0 < 5) else 0.000000e+00 : f32
// CHECK-NEXT: %c = tensor_ir.index_map (d0) -> %x[d0] where (d0 < 4), %p[d0 - 4]
func.func @conditions(%x: tensor<4xf32>) -> tensor<11xf32> {
  %p = torch.aten "constant_pad_nd.default"(self = %x) {pad = [1, 2]} : (tensor<4xf32>) -> tensor<7xf32>
  %c = torch.aten "cat.default"(tensors.0 = %x, tensors.1 = %p) : (tensor<4xf32>, tensor<7xf32>) -> tensor<11xf32>
  func.return %c : tensor<11xf32>
}

// -----

// Several results, and indices that wrap.

// CHECK-LABEL: @index
// CHECK-NEXT: %index = tensor_ir.iota along 1 -> tensor<4x6xi64>
// CHECK-NEXT: %v, %p = tensor_ir.reduce argmax over [1] (%x, %index)
// CHECK-NEXT: %wrapped = tensor_ir.elementwise (%p_1 = %p)
// CHECK:        arith.cmpi slt
// CHECK:        arith.select
// CHECK:      %y = tensor_ir.gather ({{%.*}}) (d0, d1) -> %x[i0, d1]
func.func @index(%x: tensor<4x6xf32>) -> tensor<4x6xf32> {
  %v, %p = torch.aten "max.dim"(self = %x) {dim = -1} : (tensor<4x6xf32>) -> (tensor<4xf32>, tensor<4xi64>)
  %y = torch.aten "index.Tensor"(self = %x, indices.0 = %p) : (tensor<4x6xf32>, tensor<4xi64>) -> tensor<4x6xf32>
  func.return %y : tensor<4x6xf32>
}

// -----

// A convolution is a contraction over the points of its windows, read where they are inside.

// CHECK-LABEL: @conv
// CHECK-NEXT: %x_1 = tensor_ir.index_map (d0, d1, d2, d3, d4) -> %x[d0, d3, d2 * 2 + d4 - 1] where (d2 * 2 + d4 >= 1, d2 * 2 + d4 < 8) else 0.000000e+00 : f32 : tensor<1x3x7xf32> -> tensor<1x5x4x3x3xf32>
// CHECK-NEXT: %w_1 = tensor_ir.index_map (d0, d1, d2, d3, d4) -> %w[d1, d3, d4]
// CHECK:      tensor_ir.reduce add over [3, 4]
func.func @conv(%x: tensor<1x3x7xf32>, %w: tensor<5x3x3xf32>) -> tensor<1x5x4xf32> {
  %y = torch.aten "conv1d.default"(input = %x, weight = %w) {stride = [2], padding = [1]} : (tensor<1x3x7xf32>, tensor<5x3x3xf32>) -> tensor<1x5x4xf32>
  func.return %y : tensor<1x5x4xf32>
}

// -----

// An element looks for the last update that hits it.

// CHECK-LABEL: @scatter
// CHECK:      %hit = tensor_ir.elementwise
// CHECK-NEXT:   arith.cmpi eq
// CHECK:      %latest = tensor_ir.reduce max over [1] ({{.*}}) : tensor<6x4xi64> -> tensor<6xi64>
// CHECK:      tensor_ir.gather (%place) (d0) -> %{{.*}}[d0, i0]
func.func @scatter(%x: tensor<6xf32>, %i: tensor<4xi64>, %v: tensor<4xf32>) -> tensor<6xf32> {
  %y = torch.aten "scatter.src"(self = %x, index = %i, src = %v) {dim = 0} : (tensor<6xf32>, tensor<4xi64>, tensor<4xf32>) -> tensor<6xf32>
  func.return %y : tensor<6xf32>
}

// -----

// Complex tensors are two, of their parts; a number of the program may be complex.

// CHECK-LABEL: @complex
// CHECK-NEXT: tensor_ir.index_map (d0) -> %x[d0, 0] : tensor<4x2xf32> -> tensor<4xf32>
// CHECK-NEXT: tensor_ir.index_map (d0) -> %x[d0, 1] : tensor<4x2xf32> -> tensor<4xf32>
// CHECK:      arith.subf
// CHECK-NEXT: tensor_ir.yield
// CHECK:      arith.addf
// CHECK-NEXT: tensor_ir.yield
// CHECK:      tensor_ir.index_map (d0, d1) -> %{{.*}}[d0] where (d1 < 1), %{{.*}}[d0]
func.func @complex(%x: tensor<4x2xf32> {dlc.dtype = "complex64"}) -> (tensor<4x2xf32> {dlc.dtype = "complex64"}) {
  %z = torch.aten "view_as_complex.default"(self = %x) : (tensor<4x2xf32>) -> tensor<4xcomplex<f32>>
  %y = torch.aten "mul.Tensor"(self = %z) {other = {real = 0.5 : f64, imag = 1.0 : f64}} : (tensor<4xcomplex<f32>>) -> tensor<4xcomplex<f32>>
  %r = torch.aten "view_as_real.default"(self = %y) : (tensor<4xcomplex<f32>>) -> tensor<4x2xf32>
  func.return %r : tensor<4x2xf32>
}

// -----

// Bits as a type of the same size, as parts of an element, and as a part of one.

// CHECK-LABEL: @bits
// CHECK: arith.bitcast %{{.*}} : f32 to i32
// CHECK: tensor_ir.index_map (d0, d1) -> %x[d0, d1 floordiv 2]
// CHECK: %[[WORD:.*]] = arith.bitcast %{{.*}} : f32 to i32
// CHECK: %[[PART:.*]] = arith.shrsi %[[WORD]], %{{.*}} : i32
// CHECK: %[[BITS:.*]] = arith.trunci %[[PART]] : i32 to i16
// CHECK: arith.bitcast %[[BITS]] : i16 to f16
// CHECK: tensor_ir.index_map (d0, d1) -> %x[d0, d1 * 2]
// CHECK: tensor_ir.index_map (d0, d1) -> %x[d0, d1 * 2 + 1]
// CHECK: arith.shli
// CHECK: arith.ori
func.func @bits(%x: tensor<2x4xf32>) -> (tensor<2x4xi32>, tensor<2x8xf16>, tensor<2x2xi64>) {
  %same = torch.aten "view.dtype"(self = %x) {dtype = "int32"} : (tensor<2x4xf32>) -> tensor<2x4xi32>
  %parts = torch.aten "view.dtype"(self = %x) {dtype = "float16"} : (tensor<2x4xf32>) -> tensor<2x8xf16>
  %whole = torch.aten "view.dtype"(self = %x) {dtype = "int64"} : (tensor<2x4xf32>) -> tensor<2x2xi64>
  func.return %same, %parts, %whole : tensor<2x4xi32>, tensor<2x8xf16>, tensor<2x2xi64>
}

// -----

// Integers have powers by squaring; a number is shifted by a tensor.

// CHECK-LABEL: @integers
// CHECK: math.ipowi %{{.*}}, %{{.*}} : i32
// CHECK: %[[ONE:.*]] = arith.constant 1 : i32
// CHECK: arith.shli %[[ONE]], %{{.*}} : i32
func.func @integers(%x: tensor<4xi32>, %y: tensor<4xi32>) -> (tensor<4xi32>, tensor<4xi32>) {
  %p = torch.aten "pow.Tensor_Tensor"(self = %x, exponent = %y) : (tensor<4xi32>, tensor<4xi32>) -> tensor<4xi32>
  %s = torch.aten "bitwise_left_shift.Scalar_Tensor"(other = %y) {self = 1} : (tensor<4xi32>) -> tensor<4xi32>
  func.return %p, %s : tensor<4xi32>, tensor<4xi32>
}
