// RUN: dlc-opt %s -p permute-register-tile --split-input-file --remarks 2>%t.remarks | filecheck %s
// RUN: filecheck %s --input-file %t.remarks --check-prefix=REMARK
// RUN: dlc-opt %s -p 'permute-register-tile{strip=1}' --split-input-file | filecheck %s --check-prefix=INTERLEAVED
// RUN: dlc-opt %s -p 'permute-register-tile{axes=r strip=3}' --split-input-file --verify-diagnostics --remarks 2>&1 >%t.three | filecheck %s --check-prefix=THREE-REMARK
// RUN: filecheck %s --input-file %t.three --check-prefix=THREE
// RUN: not dlc-opt %s -p 'permute-register-tile{axes=r strip=3}' --split-input-file 2>&1 | filecheck %s --check-prefix=PLACE
// RUN: not dlc-opt %s -p 'permute-register-tile{axes=r,s strip=4}' --split-input-file 2>&1 | filecheck %s --check-prefix=OTHER
// RUN: not dlc-opt %s -p 'permute-register-tile{strip=4,4}' --split-input-file 2>&1 | filecheck %s --check-prefix=TWO
// RUN: dlc-opt %s -p 'permute-register-tile{strip=8}' --split-input-file --verify-diagnostics --remarks 2>&1 >/dev/null | filecheck %s --check-prefix=WHOLE
// THREE: kernel strips: permute-register-tile: strips of 3 do not divide the 8 points of a thread
// PLACE: error: kernel strips: permute-register-tile: strips of 3 do not divide
// PLACE-NEXT: {{^}}permute-register-tile{axes=r strip=3}
// PLACE-NEXT: {{^}}                             ^^^^^
// PLACE-NEXT: hint: 1, 2, 4 or 8 divides 8
// THREE-REMARK: permute-register-tile: quotients: %t, %r in strips of 3
// OTHER: error: kernel strips: permute-register-tile: it has no register axis s
// OTHER: hint: its register axis names are r
// TWO: error: kernel strips: permute-register-tile: expected a value for each register axis, found 2 for 1
// WHOLE: permute-register-tile: strips: skipped, its register tile stays as it is

// Strips, in all subscripts and conditions: loads from shared memory stay vectors.
func.func @main(%x: tensor<16x256xf32>) -> tensor<250xf32> {
  // REMARK: permute-register-tile: strips: %t, %r in strips of 4: reads of xs from 2 ways to 1, sectors of global memory from 128 to 64
  %y = tile.kernel @strips(%x: memref<16x256xf32> = %x) -> (%y: memref<250xf32>) schedule "permute-register-tile" {
    // CHECK: schedule "permute-register-tile{axes=r strip=4}" {
    // CHECK-NEXT: tile.launch thread(%t in 32) register(%ro in 2, %ri in 4) {
    tile.launch thread(%t in 32) register(%r in 8) {
      %xs = tile.stage %x[0, 0] [16, 256] : memref<16x256xf32> -> memref<16x256xf32, #tile.shared>
      %s = tile.reduce add serial(%k in 16) -> f32 {
        // CHECK: tile.load %xs[%k, %ro * 128 + %t * 4 + %ri]
        %v = tile.load %xs[%k, %t * 8 + %r] : memref<16x256xf32, #tile.shared>
        tile.yield %v : f32
      }
      // CHECK: tile.store %s, %y[%ro * 128 + %t * 4 + %ri] where (%ro * 128 + %t * 4 + %ri < 250)
      tile.store %s, %y[%t * 8 + %r] where (%t * 8 + %r < 250) : memref<250xf32>
    }
  }
  func.return %y : tensor<250xf32>
}

// -----

// Strips of rows can be read without conflicts once groups of rows are padded; TMA wants the rows
// that a warp reads to follow each other.
func.func @main(%x: tensor<256x32xf32>) -> tensor<256xf32> {
  // REMARK: permute-register-tile: rows: %t, %r in strips of 4: sectors of global memory from 64 to 32
  %y = tile.kernel @rows(%x: memref<256x32xf32> = %x) -> (%y: memref<256xf32>) schedule "permute-register-tile" {
    // CHECK: tile.launch thread(%t in 32) register(%ro in 2, %ri in 4) {
    // INTERLEAVED: tile.launch thread(%t in 32) register(%r in 8) {
    tile.launch thread(%t in 32) register(%r in 8) {
      %xs = tile.stage %x[0, 0] [256, 32] : memref<256x32xf32> -> memref<256x32xf32, #tile.shared>
      %s = tile.reduce add serial(%k in 8) register(%v in 4) -> f32 {
        // CHECK: tile.load %xs[%ro * 128 + %t * 4 + %ri, %k * 4 + %v]
        // INTERLEAVED: tile.load %xs[%r * 32 + %t, %k * 4 + %v]
        %e = tile.load %xs[%t * 8 + %r, %k * 4 + %v] : memref<256x32xf32, #tile.shared>
        tile.yield %e : f32
      }
      // CHECK: tile.store %s, %y[%ro * 128 + %t * 4 + %ri]
      // INTERLEAVED: tile.store %s, %y[%r * 32 + %t]
      tile.store %s, %y[%t * 8 + %r] : memref<256xf32>
    }
  }
  func.return %y : tensor<256xf32>
}

// -----

// Quotients and remainders of the whole number are kept whole; only global memory gains.
func.func @main(%x: tensor<80x5xf32>) -> tensor<384xf32> {
  %y = tile.kernel @quotients(%x: memref<80x5xf32> = %x) -> (%y: memref<384xf32>) schedule "permute-register-tile" {
    // REMARK: permute-register-tile: quotients: %t, %r interleaved: sectors of global memory from
    tile.launch thread(%t in 32) register(%r in 12) {
      // CHECK: tile.load %x[(%r * 32 + %t) floordiv 5, (%r * 32 + %t) mod 5]
      %v = tile.load %x[(%t * 12 + %r) floordiv 5, (%t * 12 + %r) mod 5] : memref<80x5xf32>
      // CHECK: tile.store %v, %y[%r * 32 + %t]
      tile.store %v, %y[%t * 12 + %r] : memref<384xf32>
    }
  }
  func.return %y : tensor<384xf32>
}

// -----

func.func @main(%x: tensor<32x8xf32>) -> tensor<256xf32> {
  // REMARK: permute-register-tile: apart: skipped, its thread and register axes are not mentioned as %t * R + %r
  %y = tile.kernel @apart(%x: memref<32x8xf32> = %x) -> (%y: memref<256xf32>) schedule "permute-register-tile" {
    tile.launch thread(%t in 32) register(%r in 8) {
      // CHECK: tile.load %x[%t, %r]
      %v = tile.load %x[%t, %r] : memref<32x8xf32>
      tile.store %v, %y[%t * 8 + %r] : memref<256xf32>
    }
  }
  func.return %y : tensor<256xf32>
}

// -----

func.func @main(%x: tensor<256xf32>) -> tensor<256xf32> {
  // REMARK: permute-register-tile: serial: skipped, it has no register axis (register-tile makes them)
  %y = tile.kernel @serial(%x: memref<256xf32> = %x) -> (%y: memref<256xf32>) schedule "permute-register-tile" {
    tile.launch thread(%t in 32) serial(%e in 8) {
      %v = tile.load %x[%t * 8 + %e] : memref<256xf32>
      tile.store %v, %y[%t * 8 + %e] : memref<256xf32>
    }
  }
  func.return %y : tensor<256xf32>
}

// -----

func.func @main(%x: tensor<128xf32>) -> tensor<128xf32> {
  // REMARK: permute-register-tile: good: skipped, no order of its register tile conflicts less
  %y = tile.kernel @good(%x: memref<128xf32> = %x) -> (%y: memref<128xf32>) schedule "permute-register-tile" {
    tile.launch thread(%t in 32) register(%r in 4) {
      // CHECK: tile.load %x[%t * 4 + %r]
      %v = tile.load %x[%t * 4 + %r] : memref<128xf32>
      tile.store %v, %y[%t * 4 + %r] : memref<128xf32>
    }
  }
  func.return %y : tensor<128xf32>
}
