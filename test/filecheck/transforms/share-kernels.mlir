// RUN: dlc-opt %s -p share-kernels -o %t.mlir
// RUN: filecheck %s --input-file=%t.mlir
// RUN: dlc-opt %t.mlir | filecheck %s
// RUN: dlc-opt %s -p share-kernels --remarks 2>&1 >/dev/null | filecheck %s --check-prefix=SAYS
// RUN: dlc-opt %t.mlir -p 'tileify,split-matmul-k{splits=3}' | filecheck %s --check-prefix=SPLIT
// RUN: dlc-opt %t.mlir -p 'tileify,split-matmul-k{splits=3},bind-axes,lower-stages,lower-reduces,lower-registers' | filecheck %s --check-prefix=KERNEL
// SAYS: share-kernels: total: launched 3 times: it is @another, @last

// Names do not count, nor which tensors are read; a memref is called what its tensors have in
// common, and what is loaded of it, too.
// CHECK: %y = loop.kernel @total(%w: memref<7x100xf32> = %a_w, %bias: memref<7xf32> = %bias) -> (%y: memref<7xf32>) {
// CHECK: %w_1 = loop.load %w[%i, %k]
// CHECK: %z = kernel.launch @total(%b_w, %y) {ops = ["1 sum.dim_IntList"]} : (tensor<7x100xf32>, tensor<7xf32>) -> (tensor<7xf32>)
// CHECK: %v = kernel.launch @total(%a_w, %z) : (tensor<7x100xf32>, tensor<7xf32>) -> (tensor<7xf32>)
// What is known of an address counts, and so does what is computed.
// CHECK: loop.kernel @unaligned(
// CHECK: loop.kernel @product(
// CHECK-NOT: kernel.launch

// What is launched again in two kernels, each with the inputs that it keeps.
// SPLIT: %s_parts = tile.kernel @total(%w: memref<7x100xf32> = %a_w)
// SPLIT: %y = tile.kernel @total_combine(%s_parts: memref<3x7xf32> = %s_parts, %bias: memref<7xf32> = %bias)
// SPLIT: %s_parts_1 = kernel.launch @total(%b_w) {ops = ["1 sum.dim_IntList"]} : (tensor<7x100xf32>) -> (tensor<3x7xf32>)
// SPLIT: %z = kernel.launch @total_combine(%s_parts_1, %y) {ops = ["1 sum.dim_IntList"]} : (tensor<3x7xf32>, tensor<7xf32>) -> (tensor<7xf32>)
// SPLIT: %v = kernel.launch @total_combine(%s_parts_2, %z)
// KERNEL-COUNT-6: kernel.func @
// KERNEL: kernel.launch @total(%a_w) : (tensor<7x100xf32>) -> (tensor<3x7xf32>)
// KERNEL: kernel.launch @total_combine(
// KERNEL: kernel.launch @total(%b_w)

func.func @main(%a_w: tensor<7x100xf32>, %b_w: tensor<7x100xf32>, %bias: tensor<7xf32>) -> (tensor<7xf32>, tensor<7xf32>, tensor<7xf32>) {
  %y = loop.kernel @total(%a_w: memref<7x100xf32> = %a_w, %bias: memref<7xf32> = %bias) -> (%y: memref<7xf32>) {
    loop.for %i in 7 {
      %s = loop.reduce add %k in 100 -> f32 {
        %a_w_1 = loop.load %a_w[%i, %k] : memref<7x100xf32>
        loop.yield %a_w_1 : f32
      }
      %b = loop.load %bias[%i] : memref<7xf32>
      %o = arith.addf %s, %b : f32
      loop.store %o, %y[%i] : memref<7xf32>
    }
  }
  %z = loop.kernel @another(%b_w: memref<7x100xf32> = %b_w, %bias: memref<7xf32> = %y) -> (%out: memref<7xf32>) {
    loop.for %row in 7 {
      %sum = loop.reduce add %c in 100 -> f32 {
        %e = loop.load %b_w[%row, %c] : memref<7x100xf32>
        loop.yield %e : f32
      }
      %f = loop.load %bias[%row] : memref<7xf32>
      %g = arith.addf %sum, %f : f32
      loop.store %g, %out[%row] : memref<7xf32>
    }
  } {ops = ["1 sum.dim_IntList"]}
  %v = loop.kernel @last(%a_w: memref<7x100xf32> = %a_w, %bias: memref<7xf32> = %z) -> (%v: memref<7xf32>) {
    loop.for %i in 7 {
      %s = loop.reduce add %k in 100 -> f32 {
        %a = loop.load %a_w[%i, %k] : memref<7x100xf32>
        loop.yield %a : f32
      }
      %b = loop.load %bias[%i] : memref<7xf32>
      %o = arith.addf %s, %b : f32
      loop.store %o, %v[%i] : memref<7xf32>
    }
  }
  %u = loop.kernel @unaligned(%a_w: memref<7x100xf32> align 4 = %a_w, %bias: memref<7xf32> = %v) -> (%u: memref<7xf32>) {
    loop.for %i in 7 {
      %s = loop.reduce add %k in 100 -> f32 {
        %a = loop.load %a_w[%i, %k] : memref<7x100xf32>
        loop.yield %a : f32
      }
      %b = loop.load %bias[%i] : memref<7xf32>
      %o = arith.addf %s, %b : f32
      loop.store %o, %u[%i] : memref<7xf32>
    }
  }
  %p = loop.kernel @product(%a_w: memref<7x100xf32> = %a_w, %bias: memref<7xf32> = %v) -> (%p: memref<7xf32>) {
    loop.for %i in 7 {
      %s = loop.reduce mul %k in 100 -> f32 {
        %a = loop.load %a_w[%i, %k] : memref<7x100xf32>
        loop.yield %a : f32
      }
      %b = loop.load %bias[%i] : memref<7xf32>
      %o = arith.addf %s, %b : f32
      loop.store %o, %p[%i] : memref<7xf32>
    }
  }
  func.return %v, %u, %p : tensor<7xf32>, tensor<7xf32>, tensor<7xf32>
}
