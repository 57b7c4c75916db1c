// RUN: dlc-opt %s --split-input-file -p plan-buffers --remarks 2>%t.remarks -o %t.mlir
// RUN: filecheck %s --input-file %t.mlir
// RUN: filecheck %s --check-prefix REMARK --input-file %t.remarks
// What is planned parses back, and planning it again changes nothing.
// RUN: dlc-opt %t.mlir --split-input-file -p plan-buffers | filecheck %s

// %a and %b are alive together, %c may lie where %a was; what is returned has memory of its own.
// REMARK: plan-buffers: @main: 4 tensors of 2032 B in a workspace of 1536 B, at least 1520 B at once
// CHECK: func.func @main(%x: memref<60xf32> {dlc.name = "x"}) -> (memref<60xf32>, memref<60xf32>) {
// CHECK-NEXT: %workspace = memref.alloc() {alignment = 256 : i64} : memref<1536xui8>
// CHECK-NEXT: %a = host.slice %workspace at [[A:[0-9]+]] : memref<1536xui8> -> memref<60xf32>
// CHECK-NEXT: host.launch @one(%x) -> (%a) {ops = ["0 relu.default"], values = ["0"]}
// CHECK-NEXT: %b = host.slice %workspace at [[B:[0-9]+]] : memref<1536xui8> -> memref<320xf32>
// CHECK-NEXT: host.launch @wide(%a) -> (%b)
// CHECK-NEXT: %y = memref.alloc() {alignment = 256 : i64} : memref<60xf32>
// CHECK-NEXT: host.launch @one(%a) -> (%y)
// CHECK-NEXT: %c = host.slice %workspace at [[A]] : memref<1536xui8> -> memref<60xf32>
// CHECK-NEXT: host.zero %c : memref<60xf32>
// CHECK-NEXT: host.launch @sum(%b) -> (%c)
// An output that nothing reads still needs memory.
// CHECK-NEXT: %d = host.slice %workspace at [[B]] : memref<1536xui8> -> memref<68xf32>
// CHECK-NEXT: %z = memref.alloc() {alignment = 256 : i64} : memref<60xf32>
// CHECK-NEXT: host.launch @both(%c) -> (%d, %z)
// CHECK-NEXT: func.return %y, %z : memref<60xf32>, memref<60xf32>
kernel.func @one(%x: memref<60xf32>) -> (%y: memref<60xf32>) grid 1 block 32 {
}
kernel.func @wide(%x: memref<60xf32>) -> (%y: memref<320xf32>) grid 1 block 32 {
}
kernel.func @sum(%x: memref<320xf32>) -> (%y: memref<60xf32> zeroed) grid 1 block 32 {
}
kernel.func @both(%x: memref<60xf32>) -> (%y: memref<68xf32>, %z: memref<60xf32>) grid 1 block 32 {
}
func.func @main(%x: tensor<60xf32> {dlc.name = "x"}) -> (tensor<60xf32>, tensor<60xf32>) {
  %a = kernel.launch @one(%x) {ops = ["0 relu.default"], values = ["0"]} : (tensor<60xf32>) -> (tensor<60xf32>)
  %b = kernel.launch @wide(%a) : (tensor<60xf32>) -> (tensor<320xf32>)
  %y = kernel.launch @one(%a) : (tensor<60xf32>) -> (tensor<60xf32>)
  %c = kernel.launch @sum(%b) : (tensor<320xf32>) -> (tensor<60xf32>)
  %d, %z = kernel.launch @both(%c) : (tensor<60xf32>) -> (tensor<68xf32>, tensor<60xf32>)
  func.return %y, %z : tensor<60xf32>, tensor<60xf32>
}

// -----

// Nothing is between launches: no workspace. Strides are the kernel's, or the argument's own.
// CHECK: func.func @main(%x: memref<2x3xf32, strided<[1, 2]>>, %unread: memref<2x3xf32, strided<[1, 2]>> {dlc.strides = array<i64: 1, 2>})
// CHECK-NEXT: %y = memref.alloc() {alignment = 256 : i64} : memref<2x3xf32, strided<[1, 2]>>
// CHECK-NEXT: host.launch @copy(%x) -> (%y)
// CHECK-NEXT: func.return %y, %unread
kernel.func @copy(%x: memref<2x3xf32, strided<[1, 2]>>) -> (%y: memref<2x3xf32, strided<[1, 2]>>) grid 1 block 32 {
}
func.func @main(%x: tensor<2x3xf32>, %unread: tensor<2x3xf32> {dlc.strides = array<i64: 1, 2>}) -> (tensor<2x3xf32>, tensor<2x3xf32>) {
  %y = kernel.launch @copy(%x) : (tensor<2x3xf32>) -> (tensor<2x3xf32>)
  func.return %y, %unread : tensor<2x3xf32>, tensor<2x3xf32>
}

// -----

// A function of numbers is no program of tensors.
// CHECK: func.func @number(%a: i32) -> i32 {
func.func @number(%a: i32) -> i32 {
  func.return %a : i32
}

// -----

// Blocks of all kernels are counted in one place, as large as the largest count, which is zeroed
// once, also of launches in loops; what is added to is zeroed before each launch.
// CHECK: func.func @main
// CHECK-NEXT: %workspace = memref.alloc() {alignment = 256 : i64} : memref<{{[0-9]+}}xui8>
// CHECK-NEXT: %arrived = memref.alloc() {alignment = 256 : i64} : memref<36xui8>
// CHECK-NEXT: host.zero %arrived : memref<36xui8>
// CHECK-NOT: host.zero %arrived
// CHECK: host.slice %arrived at 0 : memref<36xui8> -> memref<2xi32>
// CHECK: host.launch @few(%x)
// CHECK: host.slice %arrived at 0 : memref<36xui8> -> memref<9xi32>
// CHECK-NEXT: host.zero %s
// CHECK-NEXT: host.launch @many(%a)
// CHECK-NOT: host.zero
kernel.func @few(%x: memref<60xf32>) -> (%y: memref<60xf32>, %arrived: memref<2xi32> zeroed) grid 4 block 32 {
  kernel.last_block %arrived[0] of 2 : memref<2xi32>
}
kernel.func @many(%x: memref<60xf32>) -> (%y: memref<60xf32>, %s: memref<f32> zeroed, %arrived: memref<9xi32> zeroed) grid 4 block 32 {
  kernel.last_block %arrived[0] of 2 : memref<9xi32>
}
func.func @main(%x: tensor<60xf32> {dlc.name = "x"}) -> (tensor<60xf32>) {
  %a, %m = kernel.launch @few(%x) : (tensor<60xf32>) -> (tensor<60xf32>, tensor<2xi32>)
  %b, %s, %n = kernel.launch @many(%a) : (tensor<60xf32>) -> (tensor<60xf32>, tensor<f32>, tensor<9xi32>)
  %c, %o = kernel.launch @few(%b) : (tensor<60xf32>) -> (tensor<60xf32>, tensor<2xi32>)
  func.return %c : tensor<60xf32>
}
