// RUN: dlc-opt %s --split-input-file --verify-diagnostics --parsing-diagnostics | filecheck %s

%x = "test.op"() : () -> tensor<64xf16>
%y = tile.kernel @none(%x: memref<64xf16> = %x) -> (%y: memref<f16>) {
  tile.launch {
    %a = tile.reduce add fragment(%k in 16) -> f16 {
      %v = tile.load %x[%k] : memref<64xf16>
      tile.yield %v : f16
    }
    tile.store %a, %y[] : memref<f16>
  }
}
// CHECK: expected `by` a product of matrices for a fragment axis

// -----

%x = "test.op"() : () -> tensor<64xf16>
%y = tile.kernel @depth(%x: memref<64xf16> = %x) -> (%y: memref<8x4x2x2xf16>) {
  tile.launch thread(%g in 8, %m in 4) register(%h in 2, %p in 2) {
    %a = tile.reduce add by <m16n8k16, f16>(%g, %m, %h, %p) fragment(%k in 8) -> f16 {
      %v = tile.load %x[%k] : memref<64xf16>
      tile.yield %v : f16
    }
    tile.store %a, %y[%g, %m, %h, %p] : memref<8x4x2x2xf16>
  }
}
// CHECK: expected a sum over one fragment axis of 16 points for #kernel.mma<m16n8k16, f16>, found 1 of 8

// -----

%x = "test.op"() : () -> tensor<64xf16>
%y = tile.kernel @lanes(%x: memref<64xf16> = %x) -> (%y: memref<8x8x2x2xf16>) {
  tile.launch thread(%g in 8, %m in 8) register(%h in 2, %p in 2) {
    %a = tile.reduce add by <m16n8k16, f16>(%g, %m, %h, %p) fragment(%k in 16) -> f16 {
      %v = tile.load %x[%k] : memref<64xf16>
      tile.yield %v : f16
    }
    tile.store %a, %y[%g, %m, %h, %p] : memref<8x8x2x2xf16>
  }
}
// CHECK: expected the group of a lane (of 8), its place there (of 4), the half of the rows (of 2) and of a pair of columns (of 2), found [8, 8, 2, 2]

// -----

%x = "test.op"() : () -> tensor<64xf32>
%y = tile.kernel @warp(%x: memref<64xf32> = %x) -> (%y: memref<8x4x2x2xf32>) {
  tile.launch thread(%g in 8, %m in 4, %t in 2) register(%h in 2, %p in 2) {
    %a = tile.reduce add by <m16n8k16, f16>(%g, %m, %h, %p) fragment(%k in 16) -> f32 {
      %v = tile.load %x[%k] : memref<64xf32>
      %w = arith.mulf %v, %v : f32
      tile.yield %w : f32
    }
    tile.store %a, %y[%g, %m, %h, %p] : memref<8x4x2x2xf32>
  }
}
// CHECK: expected %g and %m to be the last two thread axes of the launch, found %g, %m, %t

// -----

%x = "test.op"() : () -> tensor<64xf32>
%y = tile.kernel @places(%x: memref<64xf32> = %x) -> (%y: memref<8x4x2x2xf32>) {
  tile.launch thread(%g in 8, %m in 4) register(%p in 2, %h in 2) {
    %a = tile.reduce add by <m16n8k16, f16>(%g, %m, %h, %p) fragment(%k in 16) -> f32 {
      %v = tile.load %x[%k] : memref<64xf32>
      %w = arith.mulf %v, %v : f32
      tile.yield %w : f32
    }
    tile.store %a, %y[%g, %m, %h, %p] : memref<8x4x2x2xf32>
  }
}
// CHECK: expected %h and %p to be the last two register axes of the launch, found %p, %h

// -----

%x = "test.op"() : () -> tensor<64xf32>
%y = tile.kernel @sum(%x: memref<64xf32> = %x) -> (%y: memref<8x4x2x2xf32>) {
  tile.launch thread(%g in 8, %m in 4) register(%h in 2, %p in 2) {
    %a = tile.reduce add by <m16n8k16, f16>(%g, %m, %h, %p) fragment(%k in 16) -> f32 {
      %v = tile.load %x[%k] : memref<64xf32>
      %w = arith.addf %v, %v : f32
      tile.yield %w : f32
    }
    tile.store %a, %y[%g, %m, %h, %p] : memref<8x4x2x2xf32>
  }
}
// CHECK: expected products, for warps to sum them by matrices, found 'arith.addf'

// -----

%x = "test.op"() : () -> tensor<64xf32>
%y = tile.kernel @rows(%x: memref<64xf32> = %x) -> (%y: memref<8x4x2x2xf32>) {
  tile.launch thread(%g in 8, %m in 4) register(%h in 2, %p in 2) {
    %a = tile.reduce add by <m16n8k16, f16>(%g, %m, %h, %p) fragment(%k in 16) -> f32 {
      %v = tile.load %x[%k] : memref<64xf32>
      %w = arith.mulf %v, %v : f32
      tile.yield %w where (%h * 8 + %g - %k >= 0) : f32
    }
    tile.store %a, %y[%g, %m, %h, %p] : memref<8x4x2x2xf32>
  }
}
// CHECK: expected conditions that hold for all rows and columns of a fragment or for none, found one that varies along %g, %h

// -----

%x = "test.op"() : () -> tensor<64xf32>
%y = tile.kernel @split(%x: memref<64xf32> = %x) -> (%y: memref<8x4x2x2xf32>) {
  tile.launch thread(%g in 8, %m in 4) register(%h in 2, %p in 2) {
    %a = tile.reduce add by <m16n8k16, f16>(%g, %m, %h, %p) split fragment(%k in 16) -> f32 {
      %v = tile.load %x[%k] : memref<64xf32>
      %w = arith.mulf %v, %v : f32
      tile.yield %w : f32
    }
    tile.store %a, %y[%g, %m, %h, %p] : memref<8x4x2x2xf32>
  }
}
// CHECK: expected `by` a product of matrices of tf32 for what is `split`

// -----

%x = "test.op"() : () -> tensor<64xf32>
%y = tile.kernel @apart(%x: memref<64xf32> = %x) -> (%y: memref<8x4x2x2xf32>) {
  tile.launch thread(%g in 8, %m in 4) register(%h in 2, %p in 2) {
    %a = tile.reduce add by <m16n8k8, tf32>(%g, %m, %h, %p) split apart fragment(%k in 8) -> f32 {
      %v = tile.load %x[%h * 32 + %g + %k] : memref<64xf32>
      %u = tile.load %x[%m * 2 + %p + %k] : memref<64xf32>
      %w = arith.mulf %v, %u : f32
      tile.yield %w : f32
    }
    tile.store %a, %y[%g, %m, %h, %p] : memref<8x4x2x2xf32>
  }
}
// CHECK: expected sums that are not `split` for what is `apart`

// -----

%x = "test.op"() : () -> tensor<64xf16>
%y = tile.kernel @pending(%x: memref<64xf16> = %x) -> (%y: memref<8x4x2x2xf16>) {
  tile.launch thread(%g in 8, %m in 4) register(%h in 2, %p in 2) {
    %a = tile.reduce add by <m16n8k16, f16>(%g, %m, %h, %p) pending 1 fragment(%k in 16) -> f16 {
      %v = tile.load %x[%k] : memref<64xf16>
      %q = arith.mulf %v, %v : f16
      tile.yield %q : f16
    }
    tile.store %a, %y[%g, %m, %h, %p] : memref<8x4x2x2xf16>
  }
}
// CHECK: expected `pending` a count >= 1 of products by a warpgroup, found 1 by #kernel.mma<m16n8k16, f16>

// -----

%x = "test.op"() : () -> tensor<64xf16>
%y = tile.kernel @added(%x: memref<64xf16> = %x) -> (%y: memref<8x4x2x2xf16>) {
  tile.launch thread(%g in 8, %m in 4) register(%h in 2, %p in 2) {
    %a = tile.reduce add by <m16n8k16, f16>(%g, %m, %h, %p) apart pending 1 fragment(%k in 16) -> f16 {
      %v = tile.load %x[%k] : memref<64xf16>
      %q = arith.mulf %v, %v : f16
      tile.yield %q : f16
    }
    tile.store %a, %y[%g, %m, %h, %p] : memref<8x4x2x2xf16>
  }
}
// CHECK: expected no products `pending` of sums that are added at once

// -----

%x = "test.op"() : () -> tensor<64xf16>
%y = tile.kernel @quarters(%x: memref<64xf16> = %x) -> (%y: memref<8x4x2x2xf16>) {
  tile.launch thread(%g in 8, %m in 4) register(%h in 2, %p in 2) {
    %a = tile.reduce add by <m64n64k16, f16>(%g, %m, %h, %p) fragment(%k in 16) -> f16 {
      %v = tile.load %x[%k] : memref<64xf16>
      %q = arith.mulf %v, %v : f16
      tile.yield %q : f16
    }
    tile.store %a, %y[%g, %m, %h, %p] : memref<8x4x2x2xf16>
  }
}
// CHECK: expected the warp of a warpgroup (of 4), the group of a lane (of 8), its place there (of 4), the half of the rows (of 2) and of a pair of columns (of 2), found [8, 4, 2, 2]
