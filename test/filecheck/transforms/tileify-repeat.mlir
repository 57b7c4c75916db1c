// RUN: dlc-opt %s -p 'tileify{repeat=true}' --split-input-file --verify-diagnostics | filecheck %s
// RUN: not dlc-opt %s -p 'tileify{repeat=true}' --split-input-file 2>&1 >/dev/null | filecheck %s --check-prefix=PLACE

// What a row is reduced to is computed at each point of the loop behind.
// CHECK-LABEL: tile.kernel @project
// CHECK: tile.launch thread(%i in 2, %j in 300) {
// CHECK-NEXT: %m = tile.reduce max serial(%k in 64) -> f32 {
// CHECK: %s = tile.reduce add serial(%k_1 in 64) -> f32 {
// CHECK: arith.subf %a_1, %m
// CHECK: tile.store %s, %y[%i, %j]
%x = "test.op"() : () -> tensor<2x64xf32>
%w = "test.op"() : () -> tensor<300x64xf32>
%y = loop.kernel @project(%x: memref<2x64xf32> = %x, %w: memref<300x64xf32> = %w) -> (%y: memref<2x300xf32>) {
  loop.for %i in 2 {
    %m = loop.reduce max %k in 64 -> f32 {
      %a = loop.load %x[%i, %k] : memref<2x64xf32>
      loop.yield %a : f32
    }
    loop.for %j in 300 {
      %s = loop.reduce add %k in 64 -> f32 {
        %a = loop.load %x[%i, %k] : memref<2x64xf32>
        %b = loop.load %w[%j, %k] : memref<300x64xf32>
        %d = arith.subf %a, %m : f32
        %p = arith.mulf %d, %b : f32
        loop.yield %p : f32
      }
      loop.store %s, %y[%i, %j] : memref<2x300xf32>
    }
  }
}

// -----

// PLACE: error: kernel sums: tileify: no reduce stands before a loop that is the only one beside it
// PLACE-NEXT: {{^}}tileify{repeat=true}
// PLACE-NEXT: {{^}}        ^^^^^^
// PLACE-NEXT: hint: leave it out
// CHECK: kernel sums: tileify: no reduce stands before a loop that is the only one beside it
%x = "test.op"() : () -> tensor<30x64xf32>
%z = loop.kernel @sums(%x: memref<30x64xf32> = %x) -> (%z: memref<30xf32>) {
  loop.for %i in 30 {
    %s = loop.reduce add %k in 64 -> f32 {
      %a = loop.load %x[%i, %k] : memref<30x64xf32>
      loop.yield %a : f32
    }
    loop.store %s, %z[%i] : memref<30xf32>
  }
}

// -----

// CHECK: kernel center: tileify: it updates its input in place, which points reduce that come later
%x = "test.op"() : () -> tensor<64xf32>
%u = loop.kernel @center(%x: memref<64xf32> = %x) -> (%u: memref<64xf32> updates %x) {
  %s = loop.reduce add %k in 64 -> f32 {
    %a = loop.load %u[%k] : memref<64xf32>
    loop.yield %a : f32
  }
  loop.for %j in 64 {
    %a = loop.load %u[%j] : memref<64xf32>
    %d = arith.subf %a, %s : f32
    loop.store %d, %u[%j] : memref<64xf32>
  }
}
