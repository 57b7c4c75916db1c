// RUN: dlc-opt %s --split-input-file -p take-lengths | filecheck %s
// RUN: dlc-opt %s --split-input-file -p take-lengths,hoist-invariants,fuse-loops >/dev/null

// The number is clamped to those at which something changes: below all keys, and beyond the last.
// CHECK-LABEL: loop.kernel @largest
// CHECK: %n = loop.load %lengths[%b]
// CHECK-NEXT: %[[LEAST:.*]] = arith.constant 0 : i64
// CHECK-NEXT: %[[MOST:.*]] = arith.constant 64 : i64
// CHECK-NEXT: %[[ABOVE:.*]] = arith.maxsi %n, %[[LEAST]] : i64
// CHECK-NEXT: %[[WITHIN:.*]] = arith.minsi %[[ABOVE]], %[[MOST]] : i64
// CHECK-NEXT: %[[INDEX:.*]] = arith.index_cast %[[WITHIN]] : i64 to index
// CHECK-NEXT: loop.reduce max %k in 64
// CHECK: loop.select %a where (-%k + %[[INDEX]] >= 1) else %inf : f32
func.func @main(%x: tensor<8x64xf32>, %lengths: tensor<8xi64>) -> tensor<8xf32> {
  %y = loop.kernel @largest(%x: memref<8x64xf32> = %x, %lengths: memref<8xi64> = %lengths) -> (%y: memref<8xf32>) {
    loop.for %b in 8 {
      %inf = arith.constant 0xff800000 : f32
      %n = loop.load %lengths[%b] : memref<8xi64>
      %max = loop.reduce max %k in 64 -> f32 {
        %a = loop.load %x[%b, %k] : memref<8x64xf32>
        %i = loop.index %k
        %j = arith.index_cast %i : index to i64
        %seen = arith.cmpi slt, %j, %n : i64
        %s = arith.select %seen, %a, %inf : f32
        loop.yield %s : f32
      }
      loop.store %max, %y[%b] : memref<8xf32>
    }
  }
  func.return %y : tensor<8xf32>
}

// -----

// Rows of a chunk that begins somewhere, in a window, and what memory says of each key: what is no
// comparison of places stays a select within.
// CHECK-LABEL: loop.kernel @window
// CHECK: %n_1 = arith.index_cast
// CHECK: %n_2 = arith.index_cast
// CHECK: %[[SAID:.*]] = arith.select %known, %a, %inf : f32
// CHECK-NEXT: loop.select %[[SAID]] where (%i - %k + %n_1 >= 0, %k - %i - %n_2 >= -7) else %inf : f32
func.func @main(%x: tensor<8x64xf32>, %start: tensor<i64>, %keys: tensor<64xi1>) -> tensor<8xf32> {
  %y = loop.kernel @window(%x: memref<8x64xf32> = %x, %start: memref<i64> = %start, %keys: memref<64xi1> = %keys) -> (%y: memref<8xf32>) {
    loop.for %i in 8 {
      %inf = arith.constant 0xff800000 : f32
      %eight = arith.constant 8 : i64
      %true = arith.constant true
      %n = loop.load %start[] : memref<i64>
      %max = loop.reduce max %k in 64 -> f32 {
        %a = loop.load %x[%i, %k] : memref<8x64xf32>
        %known = loop.load %keys[%k] : memref<64xi1>
        %row = loop.index %i
        %row_1 = arith.index_cast %row : index to i64
        %key = loop.index %k
        %key_1 = arith.index_cast %key : index to i64
        %last = arith.addi %n, %row_1 : i64
        %after = arith.cmpi sgt, %key_1, %last : i64
        %first = arith.subi %last, %eight : i64
        %before = arith.cmpi sle, %key_1, %first : i64
        %out = arith.ori %after, %before : i1
        %in = arith.xori %out, %true : i1
        %seen = arith.andi %in, %known : i1
        %s = arith.select %seen, %a, %inf : f32
        loop.yield %s : f32
      }
      loop.store %max, %y[%i] : memref<8xf32>
    }
  }
  func.return %y : tensor<8xf32>
}

// -----

// A number that differs from key to key, and a place that is masked by a finite number, stay.
// CHECK-LABEL: loop.kernel @stays
// CHECK-NOT: loop.select
func.func @main(%x: tensor<64xf32>, %n: tensor<64xi64>) -> tensor<f32> {
  %y = loop.kernel @stays(%x: memref<64xf32> = %x, %n: memref<64xi64> = %n) -> (%y: memref<f32>) {
    %inf = arith.constant 0xff800000 : f32
    %low = arith.constant -1.0e+30 : f32
    %first = arith.constant 0 : index
    %n_1 = loop.load %n[0] : memref<64xi64>
    %max = loop.reduce max %k in 64 -> f32 {
      %a = loop.load %x[%k] : memref<64xf32>
      %m = loop.load %n[%k] : memref<64xi64>
      %i = loop.index %k
      %j = arith.index_cast %i : index to i64
      %seen = arith.cmpi slt, %j, %m : i64
      %s = arith.select %seen, %a, %inf : f32
      %seen_1 = arith.cmpi slt, %j, %n_1 : i64
      %t = arith.select %seen_1, %s, %low : f32
      loop.yield %t : f32
    }
    loop.store %max, %y[] : memref<f32>
  }
  func.return %y : tensor<f32>
}
