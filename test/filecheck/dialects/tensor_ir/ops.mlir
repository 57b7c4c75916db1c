// RUN: dlc-opt %s | filecheck %s
// RUN: DLC_ROUNDTRIP

// CHECK-LABEL: @all
func.func @all(%x: tensor<4x6xf32>, %w: tensor<6xf32>, %i: tensor<4x6xi64>) -> tensor<4xf32> {
  // CHECK: %c = tensor_ir.constant 1.500000e+00 : f32 -> tensor<4x6xf32>
  %c = tensor_ir.constant 1.5 : f32 -> tensor<4x6xf32>
  // CHECK-NEXT: %inf = tensor_ir.constant 0xff800000 : f32 -> tensor<f32>
  %inf = tensor_ir.constant 0xff800000 : f32 -> tensor<f32>
  // CHECK-NEXT: %n = tensor_ir.iota along 1 -> tensor<4x6xi64>
  %n = tensor_ir.iota along 1 -> tensor<4x6xi64>
  // CHECK-NEXT: %b = tensor_ir.index_map (d0, d1) -> %w[d1] : tensor<6xf32> -> tensor<4x6xf32>
  %b = tensor_ir.index_map (d0, d1) -> %w[d1] : tensor<6xf32> -> tensor<4x6xf32>
  // CHECK-NEXT: %cat = tensor_ir.index_map (d0, d1) -> %x[d0, d1] where (d1 < 6), %b[d0, d1 - 6] where (d0 - d1 >= -6) else 0.000000e+00 : f32 : tensor<4x6xf32>, tensor<4x6xf32> -> tensor<4x12xf32>
  %cat = tensor_ir.index_map (d0, d1) -> %x[d0, d1] where (d1 < 6), %b[d0, d1 - 6] where (d0 - d1 >= -6) else 0.0 : f32
      : tensor<4x6xf32>, tensor<4x6xf32> -> tensor<4x12xf32>
  // CHECK-NEXT: %flat = tensor_ir.index_map (d0) -> %x[d0 floordiv 6, d0 mod 6] : tensor<4x6xf32> -> tensor<24xf32>
  %flat = tensor_ir.index_map (d0) -> %x[d0 floordiv 6, d0 mod 6] : tensor<4x6xf32> -> tensor<24xf32>
  // CHECK-NEXT: %scalar = tensor_ir.index_map () -> %w[3] : tensor<6xf32> -> tensor<f32>
  %scalar = tensor_ir.index_map () -> %w[3] : tensor<6xf32> -> tensor<f32>
  // CHECK-NEXT: %g = tensor_ir.gather (%i, %n) (d0, d1) -> %x[i0, i1] : (tensor<4x6xi64>, tensor<4x6xi64>), tensor<4x6xf32> -> tensor<4x6xf32>
  %g = tensor_ir.gather (%i, %n) (d0, d1) -> %x[i0, i1] : (tensor<4x6xi64>, tensor<4x6xi64>), tensor<4x6xf32> -> tensor<4x6xf32>
  // CHECK-NEXT: %y = tensor_ir.elementwise (%a = %x, %s = %b) : tensor<4x6xf32>, tensor<4x6xf32> -> tensor<4x6xf32> {
  // CHECK-NEXT:   %0 = arith.addf %a, %s : f32
  // CHECK-NEXT:   tensor_ir.yield %0 : f32
  // CHECK-NEXT: }
  %y = tensor_ir.elementwise (%a = %x, %s = %b) : tensor<4x6xf32>, tensor<4x6xf32> -> tensor<4x6xf32> {
    %0 = arith.addf %a, %s : f32
    tensor_ir.yield %0 : f32
  }
  // CHECK-NEXT: %r = tensor_ir.reduce add over [1] (%y) : tensor<4x6xf32> -> tensor<4xf32>
  %r = tensor_ir.reduce add over [1] (%y) : tensor<4x6xf32> -> tensor<4xf32>
  // CHECK-NEXT: %best, %place = tensor_ir.reduce argmax over [1] (%y, %n) : tensor<4x6xf32>, tensor<4x6xi64> -> (tensor<4xf32>, tensor<4xi64>)
  %best, %place = tensor_ir.reduce argmax over [1] (%y, %n) : tensor<4x6xf32>, tensor<4x6xi64> -> (tensor<4xf32>, tensor<4xi64>)
  // CHECK: constant {{.*}}tensor<f32> {note}
  // CHECK-NEXT: iota along 0 -> tensor<4xi64> {note}
  // CHECK-NEXT: reduce {{.*}}tensor<4xf32> {note}
  // CHECK-NEXT: index_map {{.*}}tensor<4xf32> {note}
  // CHECK-NEXT: gather {{.*}}tensor<4x6xf32> {note}
  // CHECK-NEXT: elementwise () : -> tensor<f32> {
  // CHECK: } {note}
  %c1 = tensor_ir.constant 1.5 : f32 -> tensor<f32> {note}
  %n1 = tensor_ir.iota along 0 -> tensor<4xi64> {note}
  %r1 = tensor_ir.reduce add over [1] (%y) : tensor<4x6xf32> -> tensor<4xf32> {note}
  %m1 = tensor_ir.index_map (d0) -> %x[d0, 0] : tensor<4x6xf32> -> tensor<4xf32> {note}
  %g1 = tensor_ir.gather (%i) (d0, d1) -> %x[d0, i0] : (tensor<4x6xi64>), tensor<4x6xf32> -> tensor<4x6xf32> {note}
  %e1 = tensor_ir.elementwise () : -> tensor<f32> {
    %one = arith.constant 1.0 : f32
    tensor_ir.yield %one : f32
  } {note}
  func.return %r : tensor<4xf32>
}
