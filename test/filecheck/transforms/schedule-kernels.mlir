// RUN: dlc-opt %s -p schedule-kernels --split-input-file --remarks 2>%t | filecheck %s
// RUN: filecheck %s --check-prefix=REMARK --input-file=%t

// A kernel gets a schedule for the module's target, and keeps one that it has.
// REMARK: schedule-kernels: relu: gets tileify,blockify-launch{block=1024 thread=256},register-tile{extents=4}
// REMARK-NEXT: schedule-kernels: relu: because independent points
// REMARK-NEXT: schedule-kernels: edited: keeps tileify{{$}}
// CHECK: loop.kernel @relu{{.*}} schedule "tileify,blockify-launch{block=1024 thread=256},register-tile{extents=4}" {
// CHECK: loop.kernel @edited{{.*}} schedule "tileify" {
func.func @main(%x: tensor<64x4096xf32>) -> tensor<64x4096xf32> {
  %y = loop.kernel @relu(%x: memref<64x4096xf32> = %x) -> (%y: memref<64x4096xf32>) {
    loop.for %i in 64, %j in 4096 {
      %a = loop.load %x[%i, %j] : memref<64x4096xf32>
      %b = arith.maximumf %a, %a : f32
      loop.store %b, %y[%i, %j] : memref<64x4096xf32>
    }
  }
  %z = loop.kernel @edited(%y: memref<64x4096xf32> = %y) -> (%z: memref<64x4096xf32>) schedule "tileify" {
    loop.for %i in 64, %j in 4096 {
      %a = loop.load %y[%i, %j] : memref<64x4096xf32>
      loop.store %a, %z[%i, %j] : memref<64x4096xf32>
    }
  }
  func.return %z : tensor<64x4096xf32>
}

// -----

// No points to deal out; work on each that is no run of neighbours.
// REMARK: schedule-kernels: point: gets tileify{{$}}
// REMARK-NEXT: schedule-kernels: point: because a single point
// CHECK: loop.kernel @point{{.*}} schedule "tileify" {
func.func @main(%x: tensor<f32>) -> tensor<f32> {
  %y = loop.kernel @point(%x: memref<f32> = %x) -> (%y: memref<f32>) {
    %a = loop.load %x[] : memref<f32>
    loop.store %a, %y[] : memref<f32>
  }
  func.return %y : tensor<f32>
}

// -----

// Reduces along rows are shared by threads, which keep the elements of a short row.
// REMARK: schedule-kernels: row_sum: because a reduce along rows: threads share a row
// CHECK: loop.kernel @row_sum{{.*}} schedule "tileify,cooperative-reduce{threads=256 rows=1 vector=4},mark-unroll{limit=2}" {
func.func @main(%x: tensor<640x2048xf32>) -> tensor<640xf32> {
  %y = loop.kernel @row_sum(%x: memref<640x2048xf32> = %x) -> (%y: memref<640xf32>) {
    loop.for %row in 640 {
      %s = loop.reduce add %k in 2048 -> f32 {
        %a = loop.load %x[%row, %k] : memref<640x2048xf32>
        loop.yield %a : f32
      }
      loop.store %s, %y[%row] : memref<640xf32>
    }
  }
  func.return %y : tensor<640xf32>
}

// -----

// Of one row times a matrix, neighbouring threads take neighbouring columns, down to as few as
// make blocks for all SMs.
// CHECK: loop.kernel @wide{{.*}} schedule "tileify,cooperative-reduce{threads=16 rows=32 vector=1 order=rows},chunk-reduce{bk=4 apart=true},stage-inputs{{.*}}" {
// CHECK: loop.kernel @narrow{{.*}} schedule "tileify,cooperative-reduce{threads=32 rows=16 vector=1 order=rows},stage-inputs{{.*}}" {
func.func @main(%x: tensor<2048xf32>, %v: tensor<2048x8192xf32>, %w: tensor<2048x2048xf32>) -> (tensor<8192xf32>, tensor<2048xf32>) {
  %y = loop.kernel @wide(%x: memref<2048xf32> = %x, %v: memref<2048x8192xf32> = %v) -> (%y: memref<8192xf32>) {
    loop.for %j in 8192 {
      %s = loop.reduce add %k in 2048 -> f32 {
        %a = loop.load %x[%k] : memref<2048xf32>
        %b = loop.load %v[%k, %j] : memref<2048x8192xf32>
        %p = arith.mulf %a, %b : f32
        loop.yield %p : f32
      }
      loop.store %s, %y[%j] : memref<8192xf32>
    }
  }
  %z = loop.kernel @narrow(%x: memref<2048xf32> = %x, %w: memref<2048x2048xf32> = %w) -> (%z: memref<2048xf32>) {
    loop.for %j in 2048 {
      %s = loop.reduce add %k in 2048 -> f32 {
        %a = loop.load %x[%k] : memref<2048xf32>
        %b = loop.load %w[%k, %j] : memref<2048x2048xf32>
        %p = arith.mulf %a, %b : f32
        loop.yield %p : f32
      }
      loop.store %s, %z[%j] : memref<2048xf32>
    }
  }
  func.return %y, %z : tensor<8192xf32>, tensor<2048xf32>
}

// -----

// A sum that is too long for one block is split.
// CHECK: loop.kernel @total{{.*}} schedule "tileify,split-matmul-k{splits={{[0-9]+}} then={{.}}"tileify{{.*}}{{.}}"},cooperative-reduce{{.*}}" {
func.func @main(%x: tensor<1000000xf32>) -> tensor<f32> {
  %y = loop.kernel @total(%x: memref<1000000xf32> = %x) -> (%y: memref<f32>) {
    %s = loop.reduce add %k in 1000000 -> f32 {
      %a = loop.load %x[%k] : memref<1000000xf32>
      loop.yield %a : f32
    }
    loop.store %s, %y[] : memref<f32>
  }
  func.return %y : tensor<f32>
}

// -----

// A contraction is tiled: as large as fills the SMs, by estimates that are stated, with the next
// best beside it. All steps have all of their options; those that would decline are left out.
// REMARK: schedule-kernels: mm: gets tileify,chunk-matmul-k
// REMARK-NEXT: schedule-kernels: mm: because {{[0-9]+}}x{{[0-9]+}} blocks of {{[0-9]+}} threads, chunks of {{[0-9]+}}: {{.*}} us (issue {{.*}}, memory {{.*}}, L2 {{.*}} blocks, {{[0-9]+}} on an SM)
// REMARK-NEXT: schedule-kernels: mm: rather than {{[0-9]+}}x{{[0-9]+}} blocks of
// REMARK-NEXT: schedule-kernels: mm: rather than {{[0-9]+}}x{{[0-9]+}} blocks of
// REMARK: schedule-kernels: mm: rather than tma-copy
// REMARK-NEXT: schedule-kernels: mm: with permute-register-tile: %tj, %rj in strips of 4: reads of B_smem from {{[24]}} ways to 1
// REMARK-NEXT: schedule-kernels: mm: rather than pad-smem: its buffers have no bank conflicts
// CHECK: loop.kernel @mm
// CHECK-SAME: schedule "tileify,chunk-matmul-k{bk={{[0-9]+}} vector=4},blockify-launch{block={{[0-9]+}},{{[0-9]+}} thread={{[0-9]+}},{{[0-9]+}}{{( group=[0-9]+)?}}},stage-inputs{budget={{[0-9]+}}},register-tile{extents={{[0-9]+}},{{[0-9]+}}},permute-register-tile{axes=ri,rj strip={{[0-9]+}},{{[0-9]+}}},double-buffer{depth={{[2-4]}}},
// CHECK-SAME: async-copy,pipeline-k-outer,mark-unroll{limit={{[0-9]+}}}" {
func.func @main(%A: tensor<4096x4096xf32>, %B: tensor<4096x4096xf32>) -> tensor<4096x4096xf32> {
  %C = loop.kernel @mm(%A: memref<4096x4096xf32> = %A, %B: memref<4096x4096xf32> = %B) -> (%C: memref<4096x4096xf32>) {
    loop.for %i in 4096, %j in 4096 {
      %acc = loop.reduce add %k in 4096 -> f32 {
        %a = loop.load %A[%i, %k] : memref<4096x4096xf32>
        %b = loop.load %B[%k, %j] : memref<4096x4096xf32>
        %p = arith.mulf %a, %b : f32
        loop.yield %p : f32
      }
      loop.store %acc, %C[%i, %j] : memref<4096x4096xf32>
    }
  }
  func.return %C : tensor<4096x4096xf32>
}

// -----

// Few outputs under a long K: blocks share a tile, and a second kernel adds their parts.
// REMARK: schedule-kernels: narrow: because {{.*}} K in {{[0-9]+}} parts: {{.*}} combine
// CHECK: loop.kernel @narrow
// CHECK-SAME: schedule "tileify,chunk-matmul-k{{.*}},split-matmul-k{splits={{[0-9]+}} then={{.}}"tileify,{{.*}}{{.}}"},blockify-launch
builtin.module attributes {dlc.target = "sm_80"} {
  func.func @main(%A: tensor<64x8192xf32>, %B: tensor<8192x64xf32>) -> tensor<64x64xf32> {
    %C = loop.kernel @narrow(%A: memref<64x8192xf32> = %A, %B: memref<8192x64xf32> = %B) -> (%C: memref<64x64xf32>) {
      loop.for %i in 64, %j in 64 {
        %acc = loop.reduce add %k in 8192 -> f32 {
          %a = loop.load %A[%i, %k] : memref<64x8192xf32>
          %b = loop.load %B[%k, %j] : memref<8192x64xf32>
          %p = arith.mulf %a, %b : f32
          loop.yield %p : f32
        }
        loop.store %acc, %C[%i, %j] : memref<64x64xf32>
      }
    }
    func.return %C : tensor<64x64xf32>
  }
}

// -----

// A K of one chunk has no ring.
// CHECK: loop.kernel @short
// CHECK-SAME: stage-inputs
// CHECK-NOT: double-buffer
func.func @main(%A: tensor<512x16xf32>, %B: tensor<16x512xf32>) -> tensor<512x512xf32> {
  %C = loop.kernel @short(%A: memref<512x16xf32> = %A, %B: memref<16x512xf32> = %B) -> (%C: memref<512x512xf32>) {
    loop.for %i in 512, %j in 512 {
      %acc = loop.reduce add %k in 16 -> f32 {
        %a = loop.load %A[%i, %k] : memref<512x16xf32>
        %b = loop.load %B[%k, %j] : memref<16x512xf32>
        %p = arith.mulf %a, %b : f32
        loop.yield %p : f32
      }
      loop.store %acc, %C[%i, %j] : memref<512x512xf32>
    }
  }
  func.return %C : tensor<512x512xf32>
}

// -----

// Products of halves are for tensor cores; what is computed of inputs, in the factors' type.
// CHECK: func.func @main
// CHECK: loop.kernel @product{{.*}} schedule "tileify,chunk-matmul-k{bk=64 vector=16},{{.*}}blockify-launch{block={{[^}]*}}},stage-inputs{budget={{[0-9]+}} compute=true type=bf16},register-tile{extents={{[0-9]+,[0-9]+}} mma=m16n8k16},double-buffer{depth={{[0-9]}}},async-copy,pad-smem{{.*}},pipeline-k-outer,mark-unroll{limit=4}" {
func.func @main(%x: tensor<512x512xbf16>, %w: tensor<512x512xbf16>) -> tensor<512x512xf32> {
  %y = loop.kernel @product(%x: memref<512x512xbf16> = %x, %w: memref<512x512xbf16> = %w) -> (%y: memref<512x512xf32>) {
    loop.for %i in 512, %j in 512 {
      %s = loop.reduce add %k in 512 -> f32 {
        %a = loop.load %x[%i, %k] : memref<512x512xbf16>
        %b = loop.load %w[%j, %k] : memref<512x512xbf16>
        %ae = arith.extf %a {storage} : bf16 to f32
        %t = math.tanh %ae : f32
        %h = arith.truncf %t {storage} : f32 to bf16
        %f = arith.extf %h : bf16 to f32
        %g = arith.extf %b : bf16 to f32
        %p = arith.mulf %f, %g : f32
        loop.yield %p : f32
      }
      loop.store %s, %y[%i, %j] : memref<512x512xf32>
    }
  }
  func.return %y : tensor<512x512xf32>
}
