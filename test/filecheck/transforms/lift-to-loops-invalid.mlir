// RUN: not dlc-opt %s -p lift-to-loops 2>&1 | filecheck %s

// CHECK: :{{[0-9]+}}:3: error: pass lift-to-loops: 'func.return': expected a function that returns tensors, found i32

func.func @number(%a: i32) -> i32 {
  func.return %a : i32
}
