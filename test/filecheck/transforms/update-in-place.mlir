// RUN: dlc-opt %s --split-input-file -p update-in-place --remarks 2>%t.remarks | filecheck %s
// RUN: filecheck %s --check-prefix REMARK --input-file %t.remarks

// Rows 5 and 6 of a cache, at a place that is known.
// REMARK: update-in-place: put: updates %cache in place, 16 elements of it
// CHECK:      (%y: memref<64x8xf32> updates %c) {
// CHECK-NEXT:   loop.for %i in 2, %j in 8 {
// CHECK-NEXT:     %e = loop.load %x[%i, %j] : memref<2x8xf32>
// CHECK-NEXT:     loop.store %e, %y[%i + 5, %j] : memref<64x8xf32>
func.func @main(%cache: tensor<64x8xf32>, %x: tensor<2x8xf32>)
    -> (tensor<64x8xf32> {dlc.mutates = 0 : i64}) {
  %new = loop.kernel @put(%c: memref<64x8xf32> = %cache, %x: memref<2x8xf32> = %x)
      -> (%y: memref<64x8xf32>) {
    loop.for %i in 64, %j in 8 {
      %old = loop.load %c[%i, %j] : memref<64x8xf32>
      %e = loop.load %x[%i - 5, %j] where (%i >= 5, %i < 7) else %old : memref<2x8xf32>
      loop.store %e, %y[%i, %j] : memref<64x8xf32>
    }
  }
  func.return %new : tensor<64x8xf32>
}

// -----

// A row at a place that is data: the kernel computes the condition itself. Who reads the old cache
// runs before.
// REMARK: update-in-place: put: updates %cache in place, 8 elements of it
// CHECK:      loop.kernel @first
// CHECK:      loop.kernel @put
// CHECK-SAME: (%y: memref<64x8xf32> updates %c) {
// CHECK:        %i = arith.index_cast %{{.*}} : i64 to index
// CHECK-NEXT:   loop.for %j in 8 {
// CHECK-NEXT:     %new = loop.load %x[%j] : memref<8xf32>
// CHECK-NEXT:     loop.store %new, %y[%i, %j] where (%i >= 0, %i < 64) : memref<64x8xf32>
func.func @main(%cache: tensor<64x8xf32>, %x: tensor<8xf32>, %pos: tensor<1xi64>)
    -> (tensor<64x8xf32> {dlc.mutates = 0 : i64}, tensor<8xf32>) {
  %hit = loop.kernel @hit(%p: memref<1xi64> = %pos) -> (%y: memref<64xi1>) {
    loop.for %i in 64 {
      %0 = loop.load %p[0] : memref<1xi64>
      %1 = loop.index %i
      %2 = arith.index_cast %1 : index to i64
      %3 = arith.cmpi eq, %0, %2 : i64
      loop.store %3, %y[%i] : memref<64xi1>
    }
  }
  %new = loop.kernel @put(%h: memref<64xi1> = %hit, %c: memref<64x8xf32> = %cache,
      %x: memref<8xf32> = %x) -> (%y: memref<64x8xf32>) {
    loop.for %i in 64, %j in 8 {
      %here = loop.load %h[%i] : memref<64xi1>
      %old = loop.load %c[%i, %j] : memref<64x8xf32>
      %new = loop.load %x[%j] : memref<8xf32>
      %e = arith.select %here, %new, %old : f32
      loop.store %e, %y[%i, %j] : memref<64x8xf32>
    }
  }
  %first = loop.kernel @first(%c: memref<64x8xf32> = %cache) -> (%y: memref<8xf32>) {
    loop.for %j in 8 {
      %0 = loop.load %c[0, %j] : memref<64x8xf32>
      loop.store %0, %y[%j] : memref<8xf32>
    }
  }
  func.return %new, %first : tensor<64x8xf32>, tensor<8xf32>
}

// -----

// Elements change places: the old version is needed.
// CHECK:     loop.kernel @flip
// CHECK-NOT: updates
func.func @main(%x: tensor<64xf32>) -> (tensor<64xf32> {dlc.mutates = 0 : i64}) {
  %new = loop.kernel @flip(%c: memref<64xf32> = %x) -> (%y: memref<64xf32>) {
    loop.for %i in 64 {
      %0 = loop.load %c[63 - %i] : memref<64xf32>
      loop.store %0, %y[%i] : memref<64xf32>
    }
  }
  func.return %new : tensor<64xf32>
}

// -----

// The old version is read together with the new one.
// CHECK:     loop.kernel @twice
// CHECK-NOT: updates
func.func @main(%x: tensor<64xf32>) -> (tensor<64xf32> {dlc.mutates = 0 : i64}, tensor<64xf32>) {
  %new = loop.kernel @twice(%c: memref<64xf32> = %x) -> (%y: memref<64xf32>) {
    loop.for %i in 64 {
      %0 = loop.load %c[%i] : memref<64xf32>
      %1 = arith.addf %0, %0 : f32
      loop.store %1, %y[%i] : memref<64xf32>
    }
  }
  %sum = loop.kernel @sum(%a: memref<64xf32> = %x, %b: memref<64xf32> = %new)
      -> (%y: memref<64xf32>) {
    loop.for %i in 64 {
      %0 = loop.load %a[%i] : memref<64xf32>
      %1 = loop.load %b[%i] : memref<64xf32>
      %2 = arith.addf %0, %1 : f32
      loop.store %2, %y[%i] : memref<64xf32>
    }
  }
  func.return %new, %sum : tensor<64xf32>, tensor<64xf32>
}

// -----

// Each kernel reads what the other one is to update: one of them updates, the other one runs first.
// CHECK:      loop.kernel @minus
// CHECK-SAME: (%y: memref<64xf32>) {
// CHECK:      loop.kernel @plus
// CHECK-SAME: (%y: memref<64xf32> updates %x) {
func.func @main(%a: tensor<64xf32>, %b: tensor<64xf32>)
    -> (tensor<64xf32> {dlc.mutates = 0 : i64}, tensor<64xf32> {dlc.mutates = 1 : i64}) {
  %plus = loop.kernel @plus(%x: memref<64xf32> = %a, %z: memref<64xf32> = %b)
      -> (%y: memref<64xf32>) {
    loop.for %i in 64 {
      %0 = loop.load %x[%i] : memref<64xf32>
      %1 = loop.load %z[%i] : memref<64xf32>
      %2 = arith.addf %0, %1 : f32
      loop.store %2, %y[%i] : memref<64xf32>
    }
  }
  %minus = loop.kernel @minus(%x: memref<64xf32> = %a, %z: memref<64xf32> = %b)
      -> (%y: memref<64xf32>) {
    loop.for %i in 64 {
      %0 = loop.load %x[%i] : memref<64xf32>
      %1 = loop.load %z[%i] : memref<64xf32>
      %2 = arith.subf %1, %0 : f32
      loop.store %2, %y[%i] : memref<64xf32>
    }
  }
  func.return %plus, %minus : tensor<64xf32>, tensor<64xf32>
}

// -----

// The place is counted on before the row is put there: the condition is computed where it stands.
// CHECK:      loop.kernel @hit
// CHECK:      loop.kernel @next
// CHECK-SAME: updates %p
// CHECK:      loop.kernel @put
// CHECK-SAME: (%h: memref<8xi1> = %hit,
func.func @main(%pos: tensor<1xi64>, %cache: tensor<8xf32>, %x: tensor<1xf32>)
    -> (tensor<1xi64> {dlc.mutates = 0 : i64}, tensor<8xf32> {dlc.mutates = 1 : i64}) {
  %hit = loop.kernel @hit(%p: memref<1xi64> = %pos) -> (%y: memref<8xi1>) {
    loop.for %i in 8 {
      %0 = loop.load %p[0] : memref<1xi64>
      %1 = loop.index %i
      %2 = arith.index_cast %1 : index to i64
      %3 = arith.cmpi eq, %0, %2 : i64
      loop.store %3, %y[%i] : memref<8xi1>
    }
  }
  %next = loop.kernel @next(%p: memref<1xi64> = %pos) -> (%y: memref<1xi64>) {
    %1 = arith.constant 1 : i64
    %0 = loop.load %p[0] : memref<1xi64>
    %2 = arith.addi %0, %1 : i64
    loop.store %2, %y[0] : memref<1xi64>
  }
  %new = loop.kernel @put(%h: memref<8xi1> = %hit, %c: memref<8xf32> = %cache,
      %x: memref<1xf32> = %x) -> (%y: memref<8xf32>) {
    loop.for %i in 8 {
      %here = loop.load %h[%i] : memref<8xi1>
      %old = loop.load %c[%i] : memref<8xf32>
      %new = loop.load %x[0] : memref<1xf32>
      %e = arith.select %here, %new, %old : f32
      loop.store %e, %y[%i] : memref<8xf32>
    }
  }
  func.return %next, %new : tensor<1xi64>, tensor<8xf32>
}

// -----

// A kernel that reads the tensor under another shape, too, needs what it was at other points.
// REMARK-NOT: reshaped: updates
// CHECK: loop.kernel @reshaped
// CHECK-SAME: -> (%y: memref<?x?x4xf32, #size.of<b, s>>) {
size.symbol @b from 2
size.symbol @s from 2
func.func @main(%x: tensor<?x?x4xf32, #size.of<b, s>>)
    -> (tensor<?x?x4xf32, #size.of<b, s>> {dlc.mutates = 0 : i64}) {
  %t = size.reshape %x : tensor<?x?x4xf32, #size.of<b, s>> -> tensor<?x?x4xf32, #size.of<s, b>>
  %new = loop.kernel @reshaped(%x: memref<?x?x4xf32, #size.of<b, s>> = %x, %t: memref<?x?x4xf32, #size.of<s, b>> = %t)
      -> (%y: memref<?x?x4xf32, #size.of<b, s>>) {
    %b = size.index b from 2
    %s = size.index s from 2
    loop.for %h in b, %i in s, %j in 4 {
      %old = loop.load %x[%h, %i, %j] : memref<?x?x4xf32, #size.of<b, s>>
      %first = loop.load %t[0, 0, %j] : memref<?x?x4xf32, #size.of<s, b>>
      %sum = arith.addf %old, %first : f32
      loop.store %sum, %y[%h, %i, %j] : memref<?x?x4xf32, #size.of<b, s>>
    }
  }
  func.return %new : tensor<?x?x4xf32, #size.of<b, s>>
}
