// What was chosen for each kernel, what it was preferred to and why, and what was declined.
// RUN: dlc compile -c "torch.relu(torch.randn(64,8192) @ torch.randn(8192,64) + torch.randn(64))" --target sm_80 --explain > %t
// RUN: filecheck %s --input-file=%t
// RUN: filecheck %s --input-file=%t --check-prefix=SECOND

// A table of the kernels first; then each of them, with what was merged in it.
// CHECK: {{^}}kernel           launches {{ *}}us   MB  MFLOP  operations{{$}}
// CHECK: {{^}}matmul_add_relu         1 {{.*}}  matmul, add, relu{{$}}
// CHECK-NEXT: 1 kernel, launched 1 time: {{[0-9.]+}} us predicted on sm_80{{$}}
// The schedule is one line, the reasons are paragraphs.
// CHECK: {{^}}matmul_add_relu for sm_80, 108 SMs{{$}}
// CHECK-NEXT: {{^}}  tileify,chunk-matmul-k{{.*}},split-matmul-k{{.*}},async-copy,{{.*}}pipeline-k-outer{{.*}}{{$}}
// CHECK-EMPTY:
// CHECK-NEXT: {{^}}  implements              0 matmul.default, 1 add.Tensor, 2 relu.default{{$}}
// CHECK-NEXT: {{^}}  fuse-loops              merged @product into @matmul: {{.*}} us instead of {{.*}} us{{$}}
// CHECK: {{^}}  because                 {{[0-9]+}}x{{[0-9]+}} blocks of {{.*}} us{{$}}
// CHECK-NEXT: {{^}}                          (issue {{.*}}, memory {{.*}}, L2 {{.*}}, combine {{.*}} blocks, {{[0-9]+}} on an SM){{$}}
// CHECK-NEXT: {{^}}    rather than           {{[0-9]+}}x{{[0-9]+}} blocks of
// CHECK: {{^}}                          {{[0-9]+}}x{{[0-9]+}} blocks of
// CHECK: {{^}}  tileify                 thread axes %i, %j{{$}}
// CHECK-NEXT: {{^}}  chunk-matmul-k          K in chunks of
// CHECK: {{^}}  pipeline-k-outer        chunks are requested {{[1-3]}} ahead{{$}}
// CHECK: {{^}}  bind-axes               grid {{[0-9]+}}, block {{[0-9]+}}{{$}}
// CHECK-NEXT: {{^}}  place-barriers          1 barrier{{$}}
// CHECK-NEXT: {{^}}  vectorize-accesses      the copy of
// CHECK-NEXT: {{^}}                          the copy of
// CHECK: {{^}}  shared memory           read of x_ring, {{[0-9]+}} bytes: {{.*}} way
// CHECK-NEXT: {{^}}                          read of y_ring, {{[0-9]+}} bytes: {{.*}} way
// CHECK-NEXT: {{^}}                          write of x_ring, 16 bytes: {{.*}} way

// The kernel that a split makes is explained by itself; steps that it does not name are left out.
// SECOND: {{^}}matmul_add_relu_combine for sm_80, 108 SMs{{$}}
// SECOND-NEXT: {{^}}  tileify
// SECOND-EMPTY:
// SECOND-NOT: the kernel's schedule does not name it

// Where the chip has it, why the tensor memory accelerator is not used.
// RUN: dlc compile -c "torch.randn(64,8192) @ torch.randn(8192,64)" --target sm_90 --explain | filecheck %s --check-prefix=TMA
// TMA: tma-copy: it saves {{[0-9.]+}}% of the instructions of a chunk, at most, and takes
// TMA: async-copy              x: 16 B at once, y: 16 B at once

// A schedule that was written on the kernel needs no reason; a loop without one gets it here.
// RUN: dlc compile %s --explain | filecheck %s --check-prefix=WRITTEN
// WRITTEN: {{^}}copy for sm_90, 132 SMs{{$}}
// WRITTEN-NEXT: {{^}}  tileify,blockify-launch{block=64 thread=32},pad-smem{{$}}
// WRITTEN-EMPTY:
// WRITTEN-NEXT: {{^}}  tileify                 thread axes %i, %j{{$}}
// WRITTEN-NEXT: {{^}}  blockify-launch         blocks of 1 x 64 points, 1 x 32 threads{{$}}
// WRITTEN-NEXT: {{^}}  pad-smem                skipped, it has no buffer in shared memory (stage-inputs makes them){{$}}
// WRITTEN-NEXT: {{^}}  bind-axes               grid 3200, block 32{{$}}
// WRITTEN-NEXT: {{^}}  place-barriers          0 barriers{{$}}
// WRITTEN: {{^}}again for sm_90, 132 SMs{{$}}
// WRITTEN: {{^}}  because                 independent points
func.func @main(%A: tensor<100x2040xf32>) -> tensor<100x2040xf32> {
  %D = loop.kernel @copy(%A: memref<100x2040xf32> = %A) -> (%D: memref<100x2040xf32>) schedule "tileify,blockify-launch{block=64 thread=32},pad-smem" {
    loop.for %i in 100, %j in 2040 {
      %a = loop.load %A[%i, %j] : memref<100x2040xf32>
      loop.store %a, %D[%i, %j] : memref<100x2040xf32>
    }
  }
  %E = loop.kernel @again(%D: memref<100x2040xf32> = %D) -> (%E: memref<100x2040xf32>) {
    loop.for %i in 100, %j in 2040 {
      %d = loop.load %D[%i, %j] : memref<100x2040xf32>
      loop.store %d, %E[%i, %j] : memref<100x2040xf32>
    }
  }
  func.return %E : tensor<100x2040xf32>
}
