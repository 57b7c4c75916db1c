// RUN: DLC_ROUNDTRIP
// RUN: DLC_GENERIC_ROUNDTRIP

// CHECK: func.func @f(%x: f32) -> f32
// CHECK-NEXT: %y = arith.addf %x, %x : f32
// CHECK-GENERIC: %y = "arith.addf"(%x, %x)
func.func @f(%x: f32) -> f32 {
  %y = arith.addf %x, %x : f32
  func.return %y : f32
}
