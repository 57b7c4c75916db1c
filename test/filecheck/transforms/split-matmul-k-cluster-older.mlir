// RUN: not dlc-opt %s -p 'tileify,split-matmul-k{splits=3 combine=cluster}' 2>&1 | filecheck %s
// CHECK: error: kernel sum: split-matmul-k: sm_80 has no thread block clusters (PTX ISA: sm_90 or later)
// CHECK: combine=last takes any chip
module attributes {dlc.target = "sm_80"} {
  func.func @main(%x: tensor<50xf32>) -> tensor<f32> {
    %y = loop.kernel @sum(%x: memref<50xf32> = %x) -> (%y: memref<f32>) {
      %s = loop.reduce add %k in 50 -> f32 {
        %a = loop.load %x[%k] : memref<50xf32>
        loop.yield %a : f32
      }
      loop.store %s, %y[] : memref<f32>
    }
    func.return %y : tensor<f32>
  }
}
