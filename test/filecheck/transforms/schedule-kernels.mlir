// RUN: dlc-opt %s -p schedule-kernels --remarks 2>%t | filecheck %s
// RUN: filecheck %s --check-prefix=REMARK --input-file=%t

// A kernel gets a schedule for the module's target, and keeps one that it has.
// REMARK: schedule-kernels: relu: gets tileify,blockify-launch{block=1024 thread=256}
// REMARK: schedule-kernels: edited: keeps tileify

// CHECK: loop.kernel @relu{{.*}} schedule "tileify,blockify-launch{block=1024 thread=256},register-tile{extents=4}" {
// CHECK: loop.kernel @edited{{.*}} schedule "tileify" {
func.func @main(%x: tensor<64x1000xf32>) -> tensor<64x1000xf32> {
  %y = loop.kernel @relu(%x: memref<64x1000xf32> = %x) -> (%y: memref<64x1000xf32>) {
    loop.for %i in 64, %j in 1000 {
      %a = loop.load %x[%i, %j] : memref<64x1000xf32>
      %b = arith.maximumf %a, %a : f32
      loop.store %b, %y[%i, %j] : memref<64x1000xf32>
    }
  }
  %z = loop.kernel @edited(%y: memref<64x1000xf32> = %y) -> (%z: memref<64x1000xf32>) schedule "tileify" {
    loop.for %i in 64, %j in 1000 {
      %a = loop.load %y[%i, %j] : memref<64x1000xf32>
      loop.store %a, %z[%i, %j] : memref<64x1000xf32>
    }
  }
  func.return %z : tensor<64x1000xf32>
}
