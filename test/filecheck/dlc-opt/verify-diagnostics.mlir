// RUN: dlc-opt %s --split-input-file --verify-diagnostics --parsing-diagnostics | filecheck %s

func.func @before(%a: i32) -> i32 {
  %b = arith.addi %a, %c : i32
  %c = arith.addi %a, %a : i32
  func.return %b : i32
}
// CHECK: operand %c is used before it is defined

// -----

func.func @type(%a: i32) -> f32 {
  func.return %a : i32
}
// CHECK: expected [f32], got [i32]

// -----

func.func @good(%a: i32) -> i32 {
  func.return %a : i32
}
// CHECK: func.func @good
