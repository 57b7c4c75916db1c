// RUN: dlc-opt %s --split-input-file --verify-diagnostics | filecheck %s

kernel.func @block() -> () grid 1 block 2048 {}
// CHECK: expected a grid >= 0 and a block of 1 to 1024 threads, found 1 and 2048

// -----

// CHECK: expected a grid of at most 2147483647 blocks, found 2147483648: let blocks have more points
kernel.func @no_launch_has_it() -> (%y: memref<1xf32>) grid 2147483648 block 32 {
}

// -----

"kernel.func"() <{alignments = array<i64>, block = 1, grid = affine_map<() -> (1, 2)>, sym_name = "grid"}> ({
^bb0:
}) : () -> ()
// CHECK: expected a grid of one number of blocks, found affine_map<() -> (1, 2)>

// -----

kernel.func @argument() -> (%y: index) grid 1 block 1 {}
// CHECK: expected memrefs as arguments, found index

// -----

"kernel.func"() <{alignments = array<i64: 16>, block = 1, grid = affine_map<() -> (1)>, sym_name = "alignments"}> ({
^bb0:
}) : () -> ()
// CHECK: expected at most one alignment per memref

// -----

kernel.func @input(%x: memref<4xf32>) -> () grid 1 block 1 {
  %v = kernel.load %x[0] : memref<4xf32>
  kernel.store %v, %x[1] : memref<4xf32>
}
// CHECK: expected inputs that are only read, found %x, which 'kernel.store' writes

// -----

func.func @main(%x: tensor<4xf32>) {
  %y = kernel.launch @missing(%x) : (tensor<4xf32>) -> (tensor<4xf32>)
  func.return
}
// CHECK: expected a kernel named @missing, found none

// -----

kernel.func @other(%x: memref<8xf32>) -> (%y: memref<4xf32>) grid 1 block 1 {}
func.func @main(%x: tensor<4xf32>) {
  %y = kernel.launch @other(%x) : (tensor<4xf32>) -> (tensor<4xf32>)
  func.return
}
// CHECK: expected inputs and outputs (tensor<8xf32>, tensor<4xf32>), found (tensor<4xf32>, tensor<4xf32>)

// -----

func.func @main(%x: tensor<4xf32>, %w: tensor<4xf32> {dlc.align = 4 : i64}) {
  %y = loop.kernel @exp(%x: memref<4xf32> = %x) -> (%y: memref<4xf32>) {}
  %z = kernel.launch @exp(%w) : (tensor<4xf32>) -> (tensor<4xf32>)
  func.return
}
// CHECK: expected %w at a multiple of 16 bytes, found it at one of 4

// -----

%t = kernel.thread_id
// CHECK: 'kernel.thread_id' expects ancestor op

// -----

%b = kernel.block_id
// CHECK: 'kernel.block_id' expects ancestor op

// -----

%s = kernel.alloc_shared : memref<4xf32>
// CHECK: expected a memref in #kernel.shared, found memref<4xf32>

// -----

%s = kernel.alloc_local : memref<4xf32, #kernel.shared>
// CHECK: expected a memref in #kernel.local, found memref<4xf32, #kernel.shared>

// -----

kernel.func @subscripts(%x: memref<4x4xf32>) -> () grid 1 block 1 {
  %v = kernel.load %x[0] : memref<4x4xf32>
}
// CHECK: expected 2 subscripts for memref<4x4xf32>, found 1

// -----

kernel.func @result(%x: memref<4xf32>) -> () grid 1 block 1 {
  %v = kernel.load %x[0] : memref<4xf32> -> vector<4xi32>
}
// CHECK: expected a result of the element type f32, found vector<4xi32>

// -----

kernel.func @default(%x: memref<4xf32>) -> () grid 1 block 1 {
  %d = arith.constant 1 : i32
  %v = "kernel.load"(%x, %d) <{map = affine_map<() -> (0)>, operandSegmentSizes = array<i32: 1, 0, 1>}> : (memref<4xf32>, i32) -> f32
}
// CHECK: expected a default of the element type f32, found i32

// -----

kernel.func @value() -> (%y: memref<4xf32>) grid 1 block 1 {
  %v = arith.constant 1 : i32
  kernel.store %v, %y[0] : memref<4xf32>, i32
}
// CHECK: expected a value of the element type f32, found i32

// -----

kernel.func @test() -> () grid 1 block 1 {
  %p = kernel.test
}
// CHECK: expected a `where` condition

// -----

kernel.func @select() -> () grid 1 block 1 {
  %v = arith.constant 1.0 : f32
  %d = arith.constant 1 : i32
  %w = "kernel.select"(%v, %d) <{map = affine_map<() -> ()>}> : (f32, i32) -> f32
}
// CHECK: expected one type for both values and the result, found f32, i32 and f32

// -----

kernel.func @index() -> () grid 1 block 1 {
  %w = "kernel.index"() <{map = affine_map<() -> (0)>, conditions = affine_map<() -> (0)>}> : () -> index
}
// CHECK: expected no conditions

// -----

kernel.func @width() -> () grid 1 block 32 {
  %v = arith.constant 1.0 : f32
  %w = kernel.shuffle xor %v, 16 width 16 : f32
}
// CHECK: expected a width of 2, 4, 8, 16 or 32 and a mask below it, found width 16 and mask 16

// -----

kernel.func @named() -> () grid 1 block 64 {
  %v = arith.constant 1.0 : f32
  %w = kernel.shuffle xor %v, 1 width 8 threads 64 : f32
}
// CHECK: expected the threads of a block whose last warp is not full, found 64: without them, all lanes are named

// -----

kernel.func @shuffled() -> () grid 1 block 32 {
  %v = arith.constant 1.0 : f32
  %w = "kernel.shuffle"(%v) <{mask = 1 : i64, width = 2 : i64}> : (f32) -> i32
}
// CHECK: expected a result of type f32, found i32

// -----

kernel.func @target(%x: memref<4xf32>) -> (%y: memref<4xf32>) grid 1 block 1 {
  kernel.cp_async %x[0], %y[0] elements 4 : memref<4xf32>, memref<4xf32>
}
// CHECK: expected a target in shared memory, found memref<4xf32>

// -----

kernel.func @copied(%x: memref<4xf32>) -> () grid 1 block 1 {
  %s = kernel.alloc_shared : memref<4xf32, #kernel.shared>
  kernel.cp_async %x[0], %s[0, 0] elements 4 : memref<4xf32>, memref<4xf32, #kernel.shared>
}
// CHECK: expected 1 subscripts for memref<4xf32, #kernel.shared>, found 2

// -----

kernel.func @source(%x: memref<4xf32>) -> () grid 1 block 1 {
  %s = kernel.alloc_shared : memref<4xf32, #kernel.shared>
  kernel.cp_async %s[0], %s[0] elements 4 : memref<4xf32, #kernel.shared>, memref<4xf32, #kernel.shared>
}
// CHECK: expected a source in global memory, found memref<4xf32, #kernel.shared>

// -----

kernel.func @local(%x: memref<4xf32>) -> () grid 1 block 1 {
  %l = kernel.alloc_local : memref<4xf32, #kernel.local>
  %s = kernel.alloc_shared : memref<4xf32, #kernel.shared>
  kernel.cp_async %l[0], %s[0] elements 4 : memref<4xf32, #kernel.local>, memref<4xf32, #kernel.shared>
}
// CHECK: expected a source in global memory, found memref<4xf32, #kernel.local>

// -----

kernel.func @copied_from(%x: memref<4x4xf32>) -> () grid 1 block 1 {
  %s = kernel.alloc_shared : memref<4xf32, #kernel.shared>
  kernel.cp_async %x[0], %s[0] elements 4 : memref<4x4xf32>, memref<4xf32, #kernel.shared>
}
// CHECK: expected 2 subscripts for memref<4x4xf32>, found 1

// -----

kernel.func @copied_maps(%x: memref<4xf32>) -> () grid 1 block 1 {
  %s = kernel.alloc_shared : memref<4xf32, #kernel.shared>
  "kernel.cp_async"(%x, %s) <{map = affine_map<() -> (0)>, target_map = affine_map<(d0) -> (d0)>, elements = 4 : i64}> : (memref<4xf32>, memref<4xf32, #kernel.shared>) -> ()
}
// CHECK: expected affine maps over the 0 index operands and no symbols, found 1 dimensions and 0 symbols

// -----

kernel.func @elements(%x: memref<4xf32>) -> () grid 1 block 1 {
  %s = kernel.alloc_shared : memref<4xi32, #kernel.shared>
  kernel.cp_async %x[0], %s[0] elements 4 : memref<4xf32>, memref<4xi32, #kernel.shared>
}
// CHECK: expected one element type for source and target

// -----

kernel.func @bytes(%x: memref<4xf32>) -> () grid 1 block 1 {
  %s = kernel.alloc_shared : memref<4xf32, #kernel.shared>
  kernel.cp_async %x[0], %s[0] elements 3 : memref<4xf32>, memref<4xf32, #kernel.shared>
}
// CHECK: expected a copy of 4, 8 or 16 bytes, found 12

// -----

kernel.func @more_bytes(%x: memref<8xf32>) -> () grid 1 block 1 {
  %s = kernel.alloc_shared : memref<8xf32, #kernel.shared>
  kernel.cp_async %x[0], %s[0] elements 8 : memref<8xf32>, memref<8xf32, #kernel.shared>
}
// CHECK: expected a copy of 4, 8 or 16 bytes, found 32

// -----

kernel.func @pending() -> () grid 1 block 1 {
  kernel.wait -1
}
// CHECK: expected a count >= 0, found -1

// -----

kernel.func @maps(%x: memref<4xf32>) -> () grid 1 block 1 {
  %v = "kernel.load"(%x) <{map = affine_map<(d0) -> (d0)>, operandSegmentSizes = array<i32: 1, 0, 0>}> : (memref<4xf32>) -> f32
}
// CHECK: expected affine maps over the 0 index operands and no symbols, found 1 dimensions and 0 symbols

// -----

"kernel.func"() <{alignments = array<i64>, block = 1, grid = affine_map<() -> (1)>, sym_name = "zeroed", zeroed = array<i64: 1, 0, 2>}> ({
^bb0(%y: memref<4xf32>, %z: memref<4xf32>):
}) : () -> ()
// CHECK: expected rising positions of zeroed outputs below 2, found [1, 0, 2]

// -----

kernel.func @add(%x: memref<4xf16>) -> (%y: memref<f16> zeroed) grid 1 block 4 {
  %t = kernel.thread_id
  %v = kernel.load %x[%t] : memref<4xf16>
  kernel.atomic_add %v, %y[] : memref<f16>
}
// CHECK: expected a value of type f32, f64, i32 or i64, found f16

// -----

kernel.func @count_of_threads() -> (%arrived: memref<2xi32> zeroed) grid 4 block 32 {
  %t = kernel.thread_id
  kernel.last_block %arrived[%t floordiv 16] of 2 : memref<2xi32>
}
// CHECK: expected subscripts that are the same in all threads of a block, found %t

// -----

kernel.func @count_of_one() -> (%arrived: memref<2xi32> zeroed) grid 4 block 32 {
  kernel.last_block %arrived[0] of 1 : memref<2xi32>
}
// CHECK: expected at least 2 blocks, found 1

// -----

kernel.func @count_in_floats() -> (%arrived: memref<2xf32> zeroed) grid 4 block 32 {
  kernel.last_block %arrived[0] of 2 : memref<2xf32>
}
// CHECK: expected to count in i32, found f32

// -----

kernel.func @count_in_rank() -> (%arrived: memref<2xi32> zeroed) grid 4 block 32 {
  kernel.last_block %arrived[] of 2 : memref<2xi32>
}
// CHECK: expected 1 subscripts for memref<2xi32>, found 0

// -----

kernel.func @count_in_some() -> (%arrived: memref<2xi32> zeroed) grid 4 block 32 {
  %b = kernel.block_id
  kernel.last_block %arrived[0] where (%b < 1) of 2 : memref<2xi32>
}
// CHECK: expected no conditions: all threads of a block meet

// -----

kernel.func @count_where_other_threads_are() -> (%arrived: memref<1xi32> zeroed) grid 4 block 256 {
  %t = kernel.thread_id
  %later = kernel.test where (%t >= 128)
  scf.if %later {
  } else {
    kernel.last_block %arrived[0] of 4 : memref<1xi32>
  }
}
// CHECK: expected all blocks to come by once, found 'scf.if'

// -----

kernel.func @count_in_memory() -> (%arrived: memref<2xi32>) grid 4 block 32 {
  kernel.last_block %arrived[0] of 2 : memref<2xi32>
}
// CHECK: expected to count in a zeroed output, found %arrived

// -----

kernel.func @count_where_added() -> (%arrived: memref<2xi32> zeroed) grid 4 block 32 {
  %one = arith.constant 1 : i32
  kernel.atomic_add %one, %arrived[0] : memref<2xi32>
  kernel.last_block %arrived[0] of 2 : memref<2xi32>
}
// CHECK: expected memory that nothing else uses, found 'kernel.atomic_add'

// -----

kernel.func @count_twice() -> (%arrived: memref<2xi32> zeroed, %again: memref<2xi32> zeroed) grid 4 block 32 {
  kernel.last_block %arrived[0] of 2 : memref<2xi32>
  kernel.last_block %again[0] of 2 : memref<2xi32>
}
// CHECK: expected one 'kernel.last_block' in a kernel, found several

// -----

kernel.func @count_in_loop() -> (%arrived: memref<2xi32> zeroed) grid 4 block 32 {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  scf.for %i = %c0 to %c1 step %c1 {
    kernel.last_block %arrived[0] of 2 : memref<2xi32>
  }
}
// CHECK: expected all blocks to come by once, found 'scf.for'
