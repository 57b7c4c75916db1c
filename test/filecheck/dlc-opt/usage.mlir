// Every line below fails and prints a sentence.

// RUN: not dlc-opt %s -p canonicalise 2>&1 | filecheck %s --check-prefix=PASS
// PASS: <pipeline>:1:1: error: unknown pass 'canonicalise'
// PASS-NEXT: canonicalise
// PASS-NEXT: ^^^^^^^^^^^^
// PASS-NEXT: hint: did you mean canonicalize?

// RUN: not dlc-opt %s -p 'cse{x=1}' 2>&1 | filecheck %s --check-prefix=OPTION
// OPTION: <pipeline>:1:5: error: 'cse' has no option 'x'

// RUN: not dlc-opt %s -t cudda 2>&1 | filecheck %s --check-prefix=TARGET
// TARGET: error: argument -t/--target: invalid choice: 'cudda'
// TARGET: hint: did you mean cuda?

// RUN: not dlc-opt %t.missing.mlir 2>&1 | filecheck %s --check-prefix=MISSING
// MISSING: .missing.mlir: error: no such file or directory

// RUN: not dlc-opt --debug %t.missing.mlir 2>&1 | filecheck %s --check-prefix=DEBUG
// DEBUG: Traceback (most recent call last)
// DEBUG: .missing.mlir: error: no such file or directory

// RUN: dlc-opt --version | filecheck %s --check-prefix=VERSION
// VERSION: dlc-opt on xdsl 0.74.0

// RUN: dlc-opt < %s | filecheck %s
// RUN: dlc-opt - -p '' < %s | filecheck %s
// CHECK: func.func @f
func.func @f() {
  func.return
}
