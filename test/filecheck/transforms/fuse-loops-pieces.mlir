// RUN: dlc-opt %s -p fuse-loops,share-kernels,schedule-kernels,tileify,chunk-matmul-k,split-matmul-k,cooperative-reduce,blockify-launch,chunk-reduce,stage-inputs,register-tile,permute-register-tile,double-buffer,tma-copy,split-inner-for-swizzle,async-copy,pad-smem,pipeline-k-outer,mark-unroll,bind-axes | filecheck %s --check-prefix KERNEL
// RUN: dlc-opt %s -p fuse-loops | filecheck %s

// A product beside what is there already: it stores its columns itself, and the rest is copied.

// CHECK:      %y = loop.kernel @put(%x: memref<4096x512xf32> = %x) -> (%y: memref<4096x1024xf32> partial) {
// CHECK-NEXT:   loop.for %i in 4096, %j in 512 {
// CHECK-NEXT:     %[[X:.*]] = loop.load %x[%i, %j] : memref<4096x512xf32>
// CHECK-NEXT:     loop.store %[[X]], %y[%i, %j] : memref<4096x1024xf32>
// CHECK:      %y_1 = loop.kernel @{{.*}}product{{.*}} -> (%y_1: memref<4096x1024xf32> updates %y) {
// CHECK-NEXT:   loop.for %i in 4096, %j in 512 {
// CHECK-NEXT:     %[[S:.*]] = loop.reduce add %k in 512 -> f32 {
// CHECK:          loop.store %[[S]], %y_1[%i, %j + 512] : memref<4096x1024xf32>
// CHECK:      func.return %y_1

// KERNEL: kernel.func @put(%x: memref<4096x512xf32>) -> (%y: memref<4096x1024xf32> partial)
// KERNEL: kernel.func @{{.*}}product{{.*}} -> (%y_1: memref<4096x1024xf32> updates %y)

func.func @main(%x: tensor<4096x512xf32>, %w: tensor<512x512xf32>) -> tensor<4096x1024xf32> {
  %a = loop.kernel @product(%x: memref<4096x512xf32> = %x, %w: memref<512x512xf32> = %w) -> (%a: memref<4096x512xf32>) {
    loop.for %i in 4096, %j in 512 {
      %s = loop.reduce add %k in 512 -> f32 {
        %xk = loop.load %x[%i, %k] : memref<4096x512xf32>
        %wk = loop.load %w[%k, %j] : memref<512x512xf32>
        %p = arith.mulf %xk, %wk : f32
        loop.yield %p : f32
      }
      loop.store %s, %a[%i, %j] : memref<4096x512xf32>
    }
  }
  %y = loop.kernel @put(%x: memref<4096x512xf32> = %x, %a: memref<4096x512xf32> = %a) -> (%y: memref<4096x1024xf32>) {
    loop.for %i in 4096, %j in 1024 {
      %0 = loop.load %x[%i, %j] where (%j < 512) : memref<4096x512xf32>
      %1 = loop.load %a[%i, %j - 512] where (%j >= 512) : memref<4096x512xf32>
      %2 = loop.select %0 where (%j < 512) else %1 : f32
      loop.store %2, %y[%i, %j] : memref<4096x1024xf32>
    }
  }
  func.return %y : tensor<4096x1024xf32>
}
