// RUN: DLC_ROUNDTRIP
// RUN: DLC_GENERIC_ROUNDTRIP

func.func @main(%x: tensor<32x64xf32>, %s: tensor<f32>) -> (tensor<32x64xf32>, tensor<32xf32>, tensor<32xi64>) {
  %y, %v, %n = loop.kernel @k(%x: memref<32x64xf32, strided<[1, 32]>> align 4 = %x, %s: memref<f32> = %s) -> (%y: memref<32x64xf32>, %v: memref<32xf32>, %n: memref<32xi64>) schedule "tileify,blockify-launch{thread=1,128}" {
    %zero = arith.constant 0.000000e+00 : f32
    %scale = loop.load %s[] : memref<f32>
    loop.for %row in 32 {
      %ss = loop.reduce add %k in 16, %l in 4 -> f32 {
        %a = loop.load %x[%row, %k * 4 + %l] : memref<32x64xf32, strided<[1, 32]>>
        loop.yield %a where (%k + %l < 17, %row - %l >= 0) : f32
      }
      %best, %at = loop.reduce argmax %k in 64 -> (f32, i64) {
        %a = loop.load %x[%row, -(%k mod 4) + 63 - %k floordiv 2] where (%k == 5) else %zero : memref<32x64xf32, strided<[1, 32]>>
        %i = loop.index -%k mod 3 + %row
        %j = arith.index_cast %i : index to i64
        loop.yield %a, %j : f32, i64
      }
      loop.store %best, %v[%row] : memref<32xf32>
      loop.store %at, %n[%row] where (%row < 30) : memref<32xi64>
      loop.for %c in 64 {
        %o = loop.select %ss where (%c >= 3, %c < 9) else %scale : f32
        loop.store %o, %y[%row, %c] : memref<32x64xf32>
      }
    }
  } {fuse = "never"}
  %e = loop.kernel @empty() -> (%e: memref<0xf32>) {
  }
  func.return %y, %v, %n : tensor<32x64xf32>, tensor<32xf32>, tensor<32xi64>
}

// CHECK:      %y, %v, %n = loop.kernel @k(%x: memref<32x64xf32, strided<[1, 32]>> align 4 = %x, %s: memref<f32> = %s) -> (%y: memref<32x64xf32>, %v: memref<32xf32>, %n: memref<32xi64>) schedule "tileify,blockify-launch{thread=1,128}" {
// CHECK-NEXT:   %zero = arith.constant 0.000000e+00 : f32
// CHECK-NEXT:   %scale = loop.load %s[] : memref<f32>
// CHECK-NEXT:   loop.for %row in 32 {
// CHECK-NEXT:     %ss = loop.reduce add %k in 16, %l in 4 -> f32 {
// CHECK-NEXT:       %a = loop.load %x[%row, %k * 4 + %l] : memref<32x64xf32, strided<[1, 32]>>
// CHECK-NEXT:       loop.yield %a where (%k + %l < 17, %row - %l >= 0) : f32
// CHECK-NEXT:     }
// CHECK-NEXT:     %best, %at = loop.reduce argmax %k_1 in 64 -> (f32, i64) {
// CHECK-NEXT:       %a_1 = loop.load %x[%row, -%k_1 mod 4 - %k_1 floordiv 2 + 63] where (%k_1 >= 5, %k_1 < 6) else %zero : memref<32x64xf32, strided<[1, 32]>>
// CHECK-NEXT:       %i = loop.index -%k_1 mod 3 + %row
// CHECK-NEXT:       %j = arith.index_cast %i : index to i64
// CHECK-NEXT:       loop.yield %a_1, %j : f32, i64
// CHECK-NEXT:     }
// CHECK-NEXT:     loop.store %best, %v[%row] : memref<32xf32>
// CHECK-NEXT:     loop.store %at, %n[%row] where (%row < 30) : memref<32xi64>
// CHECK-NEXT:     loop.for %c in 64 {
// CHECK-NEXT:       %o = loop.select %ss where (%c >= 3, %c < 9) else %scale : f32
// CHECK-NEXT:       loop.store %o, %y[%row, %c] : memref<32x64xf32>
// CHECK-NEXT:     }
// CHECK-NEXT:   }
// CHECK-NEXT: } {fuse = "never"}
// CHECK-NEXT: %e = loop.kernel @empty() -> (%e: memref<0xf32>) {
// CHECK-NEXT: }

// CHECK-GENERIC: "loop.kernel"(%x, %s) <{sym_name = "k", alignments = array<i64: 4, 16>, schedule = "tileify,blockify-launch{thread=1,128}"
// CHECK-GENERIC: "loop.for"() <{extents = affine_map<() -> (32)>}> ({
// CHECK-GENERIC: "loop.reduce"() <{monoid = "add", extents = affine_map<() -> (16, 4)>
