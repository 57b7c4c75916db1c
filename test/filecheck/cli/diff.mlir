// One step of the pipeline, as a unified diff.

// RUN: dlc compile %s --ir tile -vv | awk '/^>>> t:001/,/^<<< t:001/' | filecheck %s
// CHECK: >>> t:001_tileify
// CHECK-NEXT: @@
// CHECK: {{^}}-{{.*}}loop.kernel @relu
// CHECK: {{^}}+{{.*}}tile.kernel @relu
// CHECK: <<< t:001_tileify
// CHECK-NOT: >>>

// RUN: dlc compile %s --ir loop -v 2>&1 >%t.out | filecheck %s --check-prefix=REMARK
// REMARK: decompose-torch: done
// REMARK: schedule-kernels: relu: gets tileify,

func.func @main(%x: tensor<64x1000xf32>) -> tensor<64x1000xf32> {
  %relu = torch.aten "relu.default"(self = %x) : (tensor<64x1000xf32>) -> tensor<64x1000xf32>
  func.return %relu : tensor<64x1000xf32>
}
