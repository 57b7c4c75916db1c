// RUN: dlc-opt %s --split-input-file -p join-cascades --remarks 2>&1 >/dev/null | filecheck %s
// RUN: dlc-opt %s --split-input-file -p join-cascades | filecheck %s --check-prefix=IR

// Each reason for which two reduces of one axis stay two sweeps, and a factor that is the largest.
// CHECK: join-cascades: factor: %total is folded with %max, in one sweep of expsum
// IR-LABEL: loop.kernel @factor
// IR: loop.reduce expsum
// IR: %[[M:.*]] = arith.mulf %total{{.*}}, %max : f32
func.func @main(%x: tensor<8x64xf32>, %w: tensor<64xf32>) -> tensor<8xf32> {
  %y = loop.kernel @factor(%x: memref<8x64xf32> = %x, %w: memref<64xf32> = %w) -> (%y: memref<8xf32>) {
    %zero = arith.constant 0.0 : f32
    %n = arith.constant 64.0 : f32
    loop.for %row in 8 {
      %max = loop.reduce max %k in 64 -> f32 {
        %a = loop.load %x[%row, %k] : memref<8x64xf32>
        loop.yield %a : f32
      }
      %total = loop.reduce add %k in 64 -> f32 {
        %a = loop.load %x[%row, %k] : memref<8x64xf32>
        %b = loop.load %w[%k] : memref<64xf32>
        %d = arith.subf %a, %max : f32
        %e = math.exp %d : f32
        %p = arith.mulf %e, %max : f32
        loop.yield %p : f32
      }
      loop.store %total, %y[%row] : memref<8xf32>
    }
  }
  func.return %y : tensor<8xf32>
}

// -----

// CHECK: join-cascades: conditional: %total is swept after %max: it is summed where conditions hold
// IR-LABEL: loop.kernel @conditional
// IR: loop.reduce max
// IR: loop.reduce add
func.func @main(%x: tensor<8x64xf32>, %w: tensor<64xf32>) -> tensor<8xf32> {
  %y = loop.kernel @conditional(%x: memref<8x64xf32> = %x, %w: memref<64xf32> = %w) -> (%y: memref<8xf32>) {
    %zero = arith.constant 0.0 : f32
    %n = arith.constant 64.0 : f32
    loop.for %row in 8 {
      %max = loop.reduce max %k in 64 -> f32 {
        %a = loop.load %x[%row, %k] : memref<8x64xf32>
        loop.yield %a : f32
      }
      %total = loop.reduce add %k in 64 -> f32 {
        %a = loop.load %x[%row, %k] : memref<8x64xf32>
        %b = loop.load %w[%k] : memref<64xf32>
        %d = arith.subf %a, %max : f32
        %e = math.exp %d : f32
        loop.yield %e where (%k - %row >= 0) : f32
      }
      loop.store %total, %y[%row] : memref<8xf32>
    }
  }
  func.return %y : tensor<8xf32>
}

// -----

// CHECK: join-cascades: rounded: %total is swept after %max: a power is rounded to f16 before it is summed
// IR-LABEL: loop.kernel @rounded
// IR: loop.reduce max
// IR: loop.reduce add
func.func @main(%x: tensor<8x64xf32>, %w: tensor<64xf32>) -> tensor<8xf32> {
  %y = loop.kernel @rounded(%x: memref<8x64xf32> = %x, %w: memref<64xf32> = %w) -> (%y: memref<8xf32>) {
    %zero = arith.constant 0.0 : f32
    %n = arith.constant 64.0 : f32
    loop.for %row in 8 {
      %max = loop.reduce max %k in 64 -> f32 {
        %a = loop.load %x[%row, %k] : memref<8x64xf32>
        loop.yield %a : f32
      }
      %total = loop.reduce add %k in 64 -> f32 {
        %a = loop.load %x[%row, %k] : memref<8x64xf32>
        %b = loop.load %w[%k] : memref<64xf32>
        %d = arith.subf %a, %max : f32
        %e = math.exp %d : f32
        %h = arith.truncf %e : f32 to f16
        %p = arith.extf %h : f16 to f32
        %q = arith.mulf %p, %b : f32
        loop.yield %q : f32
      }
      loop.store %total, %y[%row] : memref<8xf32>
    }
  }
  func.return %y : tensor<8xf32>
}

// -----

// CHECK: join-cascades: others: %total is swept after %max: its exponents are not what the largest was found of
// IR-LABEL: loop.kernel @others
// IR: loop.reduce max
// IR: loop.reduce add
func.func @main(%x: tensor<8x64xf32>, %w: tensor<64xf32>) -> tensor<8xf32> {
  %y = loop.kernel @others(%x: memref<8x64xf32> = %x, %w: memref<64xf32> = %w) -> (%y: memref<8xf32>) {
    %zero = arith.constant 0.0 : f32
    %n = arith.constant 64.0 : f32
    loop.for %row in 8 {
      %max = loop.reduce max %k in 64 -> f32 {
        %a = loop.load %x[%row, %k] : memref<8x64xf32>
        loop.yield %a : f32
      }
      %total = loop.reduce add %k in 64 -> f32 {
        %a = loop.load %x[-%row + 7, %k] : memref<8x64xf32>
        %b = loop.load %w[%k] : memref<64xf32>
        %d = arith.subf %a, %max : f32
        %e = math.exp %d : f32
        loop.yield %e : f32
      }
      loop.store %total, %y[%row] : memref<8xf32>
    }
  }
  func.return %y : tensor<8xf32>
}

// -----

// CHECK: join-cascades: absolute: %total is swept after %max: it is not linear in one power of e of a distance from what is computed of the largest
// IR-LABEL: loop.kernel @absolute
// IR: loop.reduce max
// IR: loop.reduce add
func.func @main(%x: tensor<8x64xf32>, %w: tensor<64xf32>) -> tensor<8xf32> {
  %y = loop.kernel @absolute(%x: memref<8x64xf32> = %x, %w: memref<64xf32> = %w) -> (%y: memref<8xf32>) {
    %zero = arith.constant 0.0 : f32
    %n = arith.constant 64.0 : f32
    loop.for %row in 8 {
      %max = loop.reduce max %k in 64 -> f32 {
        %a = loop.load %x[%row, %k] : memref<8x64xf32>
        loop.yield %a : f32
      }
      %total = loop.reduce add %k in 64 -> f32 {
        %a = loop.load %x[%row, %k] : memref<8x64xf32>
        %b = loop.load %w[%k] : memref<64xf32>
        %d = arith.subf %a, %max : f32
        %e = math.absf %d : f32
        loop.yield %e : f32
      }
      loop.store %total, %y[%row] : memref<8xf32>
    }
  }
  func.return %y : tensor<8xf32>
}

// -----

// CHECK: join-cascades: squared: %total is swept after %max: it is not linear in one power of e of a distance from what is computed of the largest
// IR-LABEL: loop.kernel @squared
// IR: loop.reduce max
// IR: loop.reduce add
func.func @main(%x: tensor<8x64xf32>, %w: tensor<64xf32>) -> tensor<8xf32> {
  %y = loop.kernel @squared(%x: memref<8x64xf32> = %x, %w: memref<64xf32> = %w) -> (%y: memref<8xf32>) {
    %zero = arith.constant 0.0 : f32
    %n = arith.constant 64.0 : f32
    loop.for %row in 8 {
      %max = loop.reduce max %k in 64 -> f32 {
        %a = loop.load %x[%row, %k] : memref<8x64xf32>
        loop.yield %a : f32
      }
      %total = loop.reduce add %k in 64 -> f32 {
        %a = loop.load %x[%row, %k] : memref<8x64xf32>
        %b = loop.load %w[%k] : memref<64xf32>
        %d = arith.subf %a, %max : f32
        %e = math.exp %d : f32
        %q = arith.mulf %e, %e : f32
        loop.yield %q : f32
      }
      loop.store %total, %y[%row] : memref<8xf32>
    }
  }
  func.return %y : tensor<8xf32>
}

// -----

// CHECK: join-cascades: zeroed: %total is swept after %max: 0 is put in the place of a product with a power, not of the power
// IR-LABEL: loop.kernel @zeroed
// IR: loop.reduce max
// IR: loop.reduce add
func.func @main(%x: tensor<8x64xf32>, %w: tensor<64xf32>) -> tensor<8xf32> {
  %y = loop.kernel @zeroed(%x: memref<8x64xf32> = %x, %w: memref<64xf32> = %w) -> (%y: memref<8xf32>) {
    %zero = arith.constant 0.0 : f32
    %n = arith.constant 64.0 : f32
    loop.for %row in 8 {
      %max = loop.reduce max %k in 64 -> f32 {
        %a = loop.load %x[%row, %k] : memref<8x64xf32>
        loop.yield %a : f32
      }
      %empty = arith.cmpf oeq, %max, %zero : f32
      %total = loop.reduce add %k in 64 -> f32 {
        %a = loop.load %x[%row, %k] : memref<8x64xf32>
        %b = loop.load %w[%k] : memref<64xf32>
        %d = arith.subf %a, %max : f32
        %e = math.exp %d : f32
        %f = arith.mulf %e, %b : f32
        %s = arith.select %empty, %zero, %f : f32
        loop.yield %s : f32
      }
      loop.store %total, %y[%row] : memref<8xf32>
    }
  }
  func.return %y : tensor<8xf32>
}

// -----

// CHECK: join-cascades: between: %total is swept after %max: what it needs is computed between the two, by another reduce or from what is stored
// IR-LABEL: loop.kernel @between
// IR: loop.reduce max
// IR: loop.reduce add
func.func @main(%x: tensor<8x64xf32>, %w: tensor<64xf32>) -> tensor<8xf32> {
  %y = loop.kernel @between(%x: memref<8x64xf32> = %x, %w: memref<64xf32> = %w) -> (%y: memref<8xf32>) {
    %zero = arith.constant 0.0 : f32
    %n = arith.constant 64.0 : f32
    loop.for %row in 8 {
      %max = loop.reduce max %k in 64 -> f32 {
        %a = loop.load %x[%row, %k] : memref<8x64xf32>
        loop.yield %a : f32
      }
      loop.store %zero, %y[%row] : memref<8xf32>
      %c = loop.load %y[%row] : memref<8xf32>
      %total = loop.reduce add %k in 64 -> f32 {
        %a = loop.load %x[%row, %k] : memref<8x64xf32>
        %b = loop.load %w[%k] : memref<64xf32>
        %d = arith.subf %a, %max : f32
        %e = math.exp %d : f32
        %q = arith.mulf %e, %c : f32
        loop.yield %q : f32
      }
      loop.store %total, %y[%row] : memref<8xf32>
    }
  }
  func.return %y : tensor<8xf32>
}

// -----

// CHECK: join-cascades: products: %total is swept after %sum: it sums no squares of distances from what is computed of the sum
// IR-LABEL: loop.kernel @products
// IR: loop.reduce add
// IR: loop.reduce add
func.func @main(%x: tensor<8x64xf32>, %w: tensor<64xf32>) -> tensor<8xf32> {
  %y = loop.kernel @products(%x: memref<8x64xf32> = %x, %w: memref<64xf32> = %w) -> (%y: memref<8xf32>) {
    %zero = arith.constant 0.0 : f32
    %n = arith.constant 64.0 : f32
    loop.for %row in 8 {
      %sum = loop.reduce add %k in 64 -> f32 {
        %a = loop.load %x[%row, %k] : memref<8x64xf32>
        loop.yield %a : f32
      }
      %p = arith.divf %sum, %n : f32
      %total = loop.reduce add %k in 64 -> f32 {
        %a = loop.load %x[%row, %k] : memref<8x64xf32>
        %b = loop.load %w[%k] : memref<64xf32>
        %d = arith.subf %a, %p : f32
        %q = arith.mulf %d, %a : f32
        loop.yield %q : f32
      }
      loop.store %total, %y[%row] : memref<8xf32>
    }
  }
  func.return %y : tensor<8xf32>
}

// -----

// CHECK: join-cascades: elsewhere: %total is swept after %sum: its distances are of other numbers than are summed
// IR-LABEL: loop.kernel @elsewhere
// IR: loop.reduce add
// IR: loop.reduce add
func.func @main(%x: tensor<8x64xf32>, %w: tensor<64xf32>) -> tensor<8xf32> {
  %y = loop.kernel @elsewhere(%x: memref<8x64xf32> = %x, %w: memref<64xf32> = %w) -> (%y: memref<8xf32>) {
    %zero = arith.constant 0.0 : f32
    %n = arith.constant 64.0 : f32
    loop.for %row in 8 {
      %sum = loop.reduce add %k in 64 -> f32 {
        %a = loop.load %x[%row, %k] : memref<8x64xf32>
        loop.yield %a : f32
      }
      %p = arith.divf %sum, %n : f32
      %total = loop.reduce add %k in 64 -> f32 {
        %a = loop.load %x[-%row + 7, %k] : memref<8x64xf32>
        %b = loop.load %w[%k] : memref<64xf32>
        %d = arith.subf %a, %p : f32
        %q = arith.mulf %d, %d : f32
        loop.yield %q : f32
      }
      loop.store %total, %y[%row] : memref<8xf32>
    }
  }
  func.return %y : tensor<8xf32>
}

// -----

// CHECK: join-cascades: wider: %total is swept after %max: it is of another type
// IR-LABEL: loop.kernel @wider
// IR: loop.reduce max
// IR: loop.reduce add
func.func @main(%x: tensor<8x64xf32>) -> tensor<8xf64> {
  %y = loop.kernel @wider(%x: memref<8x64xf32> = %x) -> (%y: memref<8xf64>) {
    loop.for %row in 8 {
      %max = loop.reduce max %k in 64 -> f32 {
        %a = loop.load %x[%row, %k] : memref<8x64xf32>
        loop.yield %a : f32
      }
      %total = loop.reduce add %k in 64 -> f64 {
        %a = loop.load %x[%row, %k] : memref<8x64xf32>
        %d = arith.subf %a, %max : f32
        %e = math.exp %d : f32
        %f = arith.extf %e : f32 to f64
        loop.yield %f : f64
      }
      loop.store %total, %y[%row] : memref<8xf64>
    }
  }
  func.return %y : tensor<8xf64>
}
