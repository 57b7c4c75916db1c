// Guards that stay. All of these stage their inputs.
// RUN: dlc-opt %s -p 'stage-inputs{budget=4096}' | filecheck %s --check-prefix=GUARD

// The guard of one factor alone, here along %k + %k2: zeros of the other need not face its zeros.
// GUARD-LABEL: tile.kernel @one_factor
// GUARD: %x_smem = tile.stage %x[0, %ko * 4] [8, 4]
// GUARD: %z_smem = tile.stage %z[%ko * 4] [4]
// GUARD: tile.yield %p where (%ko * 4 + %ki < 30) : f32
%x = "test.op"() : () -> tensor<8x30xf32>
%z = "test.op"() : () -> tensor<32xf32>
tile.kernel @one_factor(%x: memref<8x30xf32> = %x, %z: memref<32xf32> = %z) -> () {
  tile.launch thread(%t in 64) {
    %acc = tile.reduce add serial(%ko in 8) -> f32 {
      %part = tile.reduce add serial(%ki in 4) -> f32 {
        %a = tile.load %x[%t floordiv 8, %ko * 4 + %ki] : memref<8x30xf32>
        %b = tile.load %z[%ko * 4 + %ki] : memref<32xf32>
        %p = arith.mulf %a, %b : f32
        tile.yield %p where (%ko * 4 + %ki < 30) : f32
      }
      tile.yield %part : f32
    }
  }
}

// A sum that is no product: a zero is not its identity's only source, exp(0) is 1.
// GUARD-LABEL: tile.kernel @no_product
// GUARD: %x_smem = tile.stage
// GUARD: tile.yield %e where (%ko * 4 + %ki < 30) : f32
tile.kernel @no_product(%x: memref<8x30xf32> = %x) -> () {
  tile.launch thread(%t in 64) {
    %acc = tile.reduce add serial(%ko in 8) -> f32 {
      %part = tile.reduce add serial(%ki in 4) -> f32 {
        %a = tile.load %x[%t floordiv 8, %ko * 4 + %ki] : memref<8x30xf32>
        %e = math.exp %a : f32
        tile.yield %e where (%ko * 4 + %ki < 30) : f32
      }
      tile.yield %part : f32
    }
  }
}

// Another monoid than a sum: 0 is not the least.
// GUARD-LABEL: tile.kernel @maximum
// GUARD: %x_smem = tile.stage
// GUARD: tile.yield %p where (%ko * 4 + %ki < 30) : f32
tile.kernel @maximum(%x: memref<8x30xf32> = %x) -> () {
  tile.launch thread(%t in 64) {
    %acc = tile.reduce max serial(%ko in 8) -> f32 {
      %part = tile.reduce max serial(%ki in 4) -> f32 {
        %a = tile.load %x[%t floordiv 8, %ko * 4 + %ki] : memref<8x30xf32>
        %p = arith.mulf %a, %a : f32
        tile.yield %p where (%ko * 4 + %ki < 30) : f32
      }
      tile.yield %part : f32
    }
  }
}

// A load that gives something else than 0 somewhere.
// GUARD-LABEL: tile.kernel @default
// GUARD: %x_smem = tile.stage
// GUARD: tile.load %x_smem[%t floordiv 8, %ki] where (%ko * 4 + %ki < 29) else %one
// GUARD: tile.yield %p where (%ko * 4 + %ki < 30) : f32
tile.kernel @default(%x: memref<8x30xf32> = %x) -> () {
  %one = arith.constant 1.0 : f32
  tile.launch thread(%t in 64) {
    %acc = tile.reduce add serial(%ko in 8) -> f32 {
      %part = tile.reduce add serial(%ki in 4) -> f32 {
        %a = tile.load %x[%t floordiv 8, %ko * 4 + %ki] where (%ko * 4 + %ki < 29) else %one : memref<8x30xf32>
        %p = arith.mulf %a, %a : f32
        tile.yield %p where (%ko * 4 + %ki < 30) : f32
      }
      tile.yield %part : f32
    }
  }
}

// Conditions of a load go that keep it in its source, where it is 0 otherwise, and those of the fold.
// GUARD-LABEL: tile.kernel @padded
// GUARD: %x_smem = tile.stage
// GUARD: %a = tile.load %x_smem[%t floordiv 8, %ki] : memref
// GUARD: %b = tile.load %x_smem[%t floordiv 8, %ki] where (%ki < 3) else %zero : memref
// GUARD: tile.yield %s where (%ko < 7) : f32
tile.kernel @padded(%x: memref<8x30xf32> = %x) -> () {
  %zero = arith.constant 0.0 : f32
  tile.launch thread(%t in 64) {
    %acc = tile.reduce add serial(%ko in 8) -> f32 {
      %part = tile.reduce add serial(%ki in 4) -> f32 {
        %a = tile.load %x[%t floordiv 8, %ko * 4 + %ki - 1] where (%ko * 4 + %ki >= 1, %ko * 4 + %ki < 31) else %zero : memref<8x30xf32>
        %b = tile.load %x[%t floordiv 8, %ko * 4 + %ki - 1] where (%ki < 3, %ko < 7) else %zero : memref<8x30xf32>
        %s = arith.addf %a, %b : f32
        tile.yield %s where (%ko < 7) : f32
      }
      tile.yield %part : f32
    }
  }
}

// Of two guards, the one that says that a point is no point of the input at all goes; the other,
// which holds within it, stays.
// GUARD-LABEL: tile.kernel @triangle
// GUARD: %x_smem = tile.stage
// GUARD: tile.yield %p where (%t - %ko * 4 - %ki >= 0) : f32
tile.kernel @triangle(%x: memref<8x30xf32> = %x) -> () {
  tile.launch thread(%t in 64) {
    %acc = tile.reduce add serial(%ko in 8) -> f32 {
      %part = tile.reduce add serial(%ki in 4) -> f32 {
        %a = tile.load %x[%t floordiv 8, %ko * 4 + %ki] : memref<8x30xf32>
        %p = arith.mulf %a, %a : f32
        tile.yield %p where (%ko * 4 + %ki < 30, %ko * 4 + %ki <= %t) : f32
      }
      tile.yield %part : f32
    }
  }
}

// Of slabs with one reuse the smaller first; one slab serves all loads of its elements.
// RUN: dlc-opt %s -p 'stage-inputs{budget=120}' --remarks 2>&1 >/dev/null | filecheck %s --check-prefix=SMALL
// SMALL: stage-inputs: one_factor: staged z (16 B, read 64 times)
// SMALL: stage-inputs: triangle: skipped, 128 B > 120 B of shared memory

// However large the budget, no more than the target has.
// RUN: dlc-opt %s -p 'stage-inputs{budget=1000000}' --remarks 2>&1 >/dev/null | filecheck %s --check-prefix=TARGET
// TARGET: stage-inputs: large: skipped, 400000 B > 232448 B of shared memory
%l = "test.op"() : () -> tensor<100000xf32>
tile.kernel @large(%l: memref<100000xf32> = %l) -> () {
  tile.launch thread(%t in 64) {
    %acc = tile.reduce add serial(%k in 100000) -> f32 {
      %a = tile.load %l[%k] : memref<100000xf32>
      tile.yield %a : f32
    }
  }
}
