// RUN: dlc-opt %s -p fuse-loops --verify-diagnostics | filecheck %s

// CHECK: kernel 'exp': expected `fuse` to be "always" or "never", found "sometimes"
func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
  %a = loop.kernel @exp(%x: memref<8xf32> = %x) -> (%a: memref<8xf32>) {
    loop.for %i in 8 {
      %v = loop.load %x[%i] : memref<8xf32>
      %e = math.exp %v : f32
      loop.store %e, %a[%i] : memref<8xf32>
    }
  } {fuse = "sometimes"}
  func.return %a : tensor<8xf32>
}
