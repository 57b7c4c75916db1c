// RUN: dlc-opt %s | filecheck %s
// RUN: DLC_ROUNDTRIP

%x = "test.op"() : () -> tensor<32x2040xf32>

// CHECK: %y = tile.kernel @rms_norm(%x: memref<32x2040xf32> align 4 = %x) -> (%y: memref<32x2040xf32>) schedule "tileify" {
%y = tile.kernel @rms_norm(%x: memref<32x2040xf32> align 4 = %x) -> (%y: memref<32x2040xf32>) schedule "tileify" {
  // CHECK-NEXT: %one = arith.constant
  %one = arith.constant 1.0 : f32
  // CHECK-NEXT: tile.launch block(%row in 32) thread(%t in 256) {
  tile.launch block(%row in 32) thread(%t in 256) {
    // CHECK-NEXT: tile.stage %x[%row, 0] [1, 2048] : memref<32x2040xf32> -> memref<2048xf32, #tile.shared>
    %xs = tile.stage %x[%row, 0] [1, 2048] : memref<32x2040xf32> -> memref<2048xf32, #tile.shared>
    // CHECK-NEXT: tile.reduce add serial(%o in 2) register(%v in 4) -> f32 {
    %part = tile.reduce add serial(%o in 2) register(%v in 4) -> f32 {
      // CHECK-NEXT: tile.load %xs[%o * 1024 + %t * 4 + %v] where (%t < 255) else %one : memref<2048xf32, #tile.shared>
      %a = tile.load %xs[%o * 1024 + %t * 4 + %v] where (%t < 255) else %one : memref<2048xf32, #tile.shared>
      // CHECK-NEXT: tile.select %a where (%t >= 3) else %one : f32
      %b = tile.select %a where (%t >= 3) else %one : f32
      // CHECK-NEXT: tile.yield %b where (%o * 1024 + %t * 4 + %v < 2040) : f32
      tile.yield %b where (%o * 1024 + %t * 4 + %v < 2040) : f32
    } {unroll}
    // CHECK: tile.combine add %part across(%t) {note} : f32
    %ss = tile.combine add %part across(%t) {note} : f32
    // CHECK-NEXT: tile.for serial(%o_1 in 2) register(%v_1 in 4) {
    tile.for serial(%o in 2) register(%v in 4) {
      // CHECK-NEXT: tile.index (%o_1 * 2 + %t) floordiv 4
      %i = tile.index (%o * 2 + %t) floordiv 4
      // CHECK-NEXT: tile.store %ss, %y[%row, %o_1 * 1024 + %t * 4 + %v_1] where (%row < 30) : memref<32x2040xf32>
      tile.store %ss, %y[%row, %o * 1024 + %t * 4 + %v] where (%row < 30) : memref<32x2040xf32>
    }
  }
}

// Outputs are uninitialized or zeroed; blocks add to the latter.
// CHECK: %z, %s = tile.kernel @sum(%x: memref<32x2040xf32> = %x) -> (%z: memref<32xf32>, %s: memref<32xf32> zeroed) {
%z, %s = tile.kernel @sum(%x: memref<32x2040xf32> = %x) -> (%z: memref<32xf32>, %s: memref<32xf32> zeroed) {
  tile.launch block(%ks in 3, %kt in 4) thread(%i in 32) {
    %p = tile.load %x[%i, %ks * 4 + %kt] : memref<32x2040xf32>
    // CHECK: tile.atomic_add %p, %s[%i] where (%i < 30) across(%ks, %kt) {note} : memref<32xf32>
    tile.atomic_add %p, %s[%i] where (%i < 30) across(%ks, %kt) {note} : memref<32xf32>
    %q = tile.load %x[%i, 0] : memref<32x2040xf32>
    // CHECK: tile.atomic_add %q, %s[%i] : memref<32xf32>
    tile.atomic_add %q, %s[%i] : memref<32xf32>
    tile.store %q, %z[%i] : memref<32xf32>
  }
}

// What blocks hold is folded across them, here two values at once.
%last = tile.kernel @last(%x: memref<32x2040xf32> = %x) -> (%last: memref<32xf32>) {
  tile.launch block(%ks in 3, %kt in 4, %b in 2) thread(%i in 16) {
    %p = tile.load %x[%b * 16 + %i, %ks * 4 + %kt] : memref<32x2040xf32>
    // CHECK: %m, %e = tile.combine expsum %p, %p across(%ks, %kt) : f32, f32
    %m, %e = tile.combine expsum %p, %p across(%ks, %kt) : f32, f32
    tile.store %e, %last[%b * 16 + %i] : memref<32xf32>
  }
}

// Blocks in an order of their own.
%o = tile.kernel @ordered() -> (%o: memref<8x3xf32>) {
  %one = arith.constant 1.0 : f32
  // CHECK: tile.launch last_first [0, 2] block(%i in 8, %j in 3) {
  tile.launch last_first [0, 2] block(%i in 8, %j in 3) {
    tile.store %one, %o[%i, %j] : memref<8x3xf32>
  }
}
