// RUN: not dlc-opt %s -p 'specialize{sizes="s=1"}' 2>&1 | filecheck %s --check-prefix=RANGE
// RUN: not dlc-opt %s -p 'specialize{sizes="s=63"}' 2>&1 | filecheck %s --check-prefix=FACT
// RUN: not dlc-opt %s -p 'specialize{sizes="s=16"}' 2>&1 | filecheck %s --check-prefix=NEGATIVE
// RUN: not dlc-opt %s -p 'specialize{sizes="s=32"}' 2>&1 | filecheck %s --check-prefix=ZERO
// RUN: not dlc-opt %s -p 'specialize{sizes="rws=64"}' 2>&1 | filecheck %s --check-prefix=NAME
// RUN: not dlc-opt %s -p 'specialize{sizes="s"}' 2>&1 | filecheck %s --check-prefix=TEXT
// RUN: not dlc-opt %s -p 'specialize{sizes="s=2,s=3"}' 2>&1 | filecheck %s --check-prefix=TWICE
// RUN: not dlc-opt %s -p specialize 2>&1 | filecheck %s --check-prefix=NONE

// RANGE: specialize-invalid.mlir:20:1: error: pass specialize: 'size.symbol': expected s from 2 to 4096, found 1
// FACT: specialize-invalid.mlir:22:1: error: pass specialize: 'size.fact': expected s mod 16 == 0, found s = 63
// NEGATIVE: specialize-invalid.mlir:24:8: error: pass specialize: 'torch.aten': expected no negative extent, found s - 20 = -4
// ZERO: specialize-invalid.mlir:25:8: error: pass specialize: 'torch.aten': expected no division by 0
// NAME: error: pass specialize: 'builtin.module': expected a size of the module, found 'rws'
// NAME: hint: did you mean rows?
// TEXT: error: specialize: expected `name=number,…`, found 's'
// TEXT: hint: such as sizes="s=63,b=4"
// TWICE: error: specialize: expected one number for 's', found two
// NONE: error: 'specialize' requires option 'sizes'
size.symbol @s from 2 to 4096 hint 128
size.symbol @rows from 2
size.fact s mod 16 == 0
func.func @main(%x: tensor<?xf32, #size.of<s>>) {
  %y = torch.aten "f.a"(self = %x) : (tensor<?xf32, #size.of<s>>) -> tensor<?xf32, #size.of<s - 20>>
  %z = torch.aten "f.b"(self = %x) {n = #size.value<1 floordiv (s - 32)>} : (tensor<?xf32, #size.of<s>>) -> tensor<f32>
  func.return
}
