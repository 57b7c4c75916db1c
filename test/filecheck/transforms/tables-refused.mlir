// RUN: dlc-opt %s -p 'tileify,blockify-launch{block=16 thread=8 tables=true}' --split-input-file --verify-diagnostics | filecheck %s

// CHECK: blockify-launch: what a block adds up may not fit into 32 bits, and shared memory adds no more
%x = "test.op"() : () -> tensor<50xi64>
%y = loop.kernel @sums(%x: memref<50xi64> = %x) -> (%y: memref<10xi64> zeroed) {
  loop.for %i in 50 {
    %p = loop.load %x[%i] : memref<50xi64>
    %q = arith.index_cast %p : i64 to index
    loop.atomic_add %p, %y[%q] where (%q >= 0) : memref<10xi64>
  }
}

// -----

// CHECK: blockify-launch: its table of 400,000 bytes does not fit into 232,448
%x = "test.op"() : () -> tensor<50xi64>
%y = loop.kernel @large(%x: memref<50xi64> = %x) -> (%y: memref<100000xi64> zeroed) {
  %one = arith.constant 1 : i64
  loop.for %i in 50 {
    %p = loop.load %x[%i] : memref<50xi64>
    %q = arith.index_cast %p : i64 to index
    loop.atomic_add %one, %y[%q] where (%q >= 0) : memref<100000xi64>
  }
}

// -----

// CHECK: blockify-launch: it adds nothing at places that are data
%x = "test.op"() : () -> tensor<50xi64>
%y = loop.kernel @copy(%x: memref<50xi64> = %x) -> (%y: memref<50xi64>) {
  loop.for %i in 50 {
    %p = loop.load %x[%i] : memref<50xi64>
    loop.store %p, %y[%i] : memref<50xi64>
  }
}
