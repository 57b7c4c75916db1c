// RUN: not dlc-opt %s 2>&1 | filecheck %s --match-full-lines --strict-whitespace

//      CHECK:{{.*}}errors.mlir:8:8: error: 'arith.addf': operand %d is used before it is defined (line 9)
// CHECK-NEXT:  %c = arith.addf %a, %d : f32
// CHECK-NEXT:       ^^^^^^^^^^
//  CHECK-NOT:Traceback
func.func @f(%a: f32, %b: f32) -> f32 {
  %c = arith.addf %a, %d : f32
  %d = arith.addf %a, %b : f32
  func.return %c : f32
}
