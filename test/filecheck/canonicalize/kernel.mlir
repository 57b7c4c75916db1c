// RUN: dlc-opt %s --split-input-file -p canonicalize | filecheck %s
// RUN: dlc-opt %s --split-input-file -p cse | filecheck %s --check-prefix CSE
// RUN: dlc-opt %s --split-input-file -p dce | filecheck %s --check-prefix DCE

// Known conditions go, and with them tests, ifs, selects, and stores that never happen; a select of
// a guarded input is one guarded load, one of shared memory is not, which may be written between.

// CHECK-LABEL: kernel.func @k
// CHECK-NEXT:  %t = kernel.thread_id
// CHECK-NEXT:  %s = kernel.alloc_shared
// CHECK-NEXT:  %one = arith.constant 1.000000e+00 : f32
// CHECK-NEXT:  kernel.store %one, %s[%t] : memref<64xf32, #kernel.shared>
// CHECK-NEXT:  %b = kernel.load %s[%t] where (%t < 5) : memref<64xf32, #kernel.shared>
// CHECK-NEXT:  kernel.barrier
// CHECK-NEXT:  kernel.store %one, %s[%t] : memref<64xf32, #kernel.shared>
// CHECK-NEXT:  %c = kernel.select %b where (%t < 5) else %one : f32
// CHECK-NEXT:  %g = kernel.load %x[%t + 1] where (%t < 5) else %one : memref<64xf32>
// CHECK-NEXT:  %v = kernel.load %x[0] : memref<64xf32> -> vector<4xf32>
// CHECK-NEXT:  %e = arith.addf %g, %c : f32
// CHECK-NEXT:  kernel.store %e, %y[%t] : memref<64xf32>
// CHECK-NEXT:  kernel.store %v, %y[0] : memref<64xf32>, vector<4xf32>
// CHECK-NEXT:  }

// DCE-LABEL: kernel.func @k
// DCE:       kernel.alloc_shared
// DCE-NOT:   kernel.alloc_shared
// DCE-NOT:   kernel.alloc_local
// DCE:       kernel.barrier

// CSE-LABEL: kernel.func @k
kernel.func @k(%x: memref<64xf32>) -> (%y: memref<64xf32>) grid 1 block 64 {
  %t = kernel.thread_id
  %s = kernel.alloc_shared : memref<64xf32, #kernel.shared>
  %unused = kernel.alloc_shared : memref<64xf32, #kernel.shared>
  %local = kernel.alloc_local : memref<f32, #kernel.local>
  %one = arith.constant 1.0 : f32
  %always = kernel.test where (%t < 64)
  scf.if %always {
    kernel.store %one, %s[%t] where (%t >= 0) : memref<64xf32, #kernel.shared>
  }
  %never = kernel.test where (%t >= 64)
  scf.if %never {
    kernel.store %one, %y[%t] : memref<64xf32>
  }
  %b = kernel.load %s[%t] where (%t < 5) : memref<64xf32, #kernel.shared>
  kernel.barrier
  kernel.store %one, %s[%t] : memref<64xf32, #kernel.shared>
  kernel.store %one, %s[%t] where (%t >= 64) : memref<64xf32, #kernel.shared>
  %c = kernel.select %b where (%t < 5) else %one : f32
  %g = kernel.load %x[%t + 1] where (%t < 5) : memref<64xf32>
  %a = kernel.select %g where (%t < 5) else %one : f32
  %i = kernel.index %t - %t
  %v = kernel.load %x[%i] : memref<64xf32> -> vector<4xf32>
  %e = arith.addf %a, %c : f32
  %f = kernel.select %e where (%t < 64) else %one : f32
  kernel.store %f, %y[%t] : memref<64xf32>
  kernel.store %v, %y[%i] : memref<64xf32>, vector<4xf32>
}

// -----

// Loads are one where no store, barrier or copy lies between, also not in a loop; what threads do
// together stays as it is said.

// CSE-LABEL: kernel.func @effects
// CSE:       %a = kernel.load %s[%t]
// CSE-NEXT:  %c = arith.addf %a, %a : f32
// CSE-NEXT:  kernel.barrier
// CSE-NEXT:  %d = kernel.load %s[%t]
// CSE-NEXT:  kernel.store %c, %s[%t]
// CSE-NEXT:  %e = kernel.load %s[%t]
// CSE:       scf.for
// CSE:       %f = kernel.load %s[%t]
// CSE-NEXT:  kernel.cp_async
// CSE-NEXT:  kernel.commit
// CSE-NEXT:  kernel.wait 0
// CSE-NEXT:  %g = kernel.load %s[%t]
// CSE-NEXT:  %h = kernel.shuffle xor %g, 1 width 32 : f32
// CSE-NEXT:  %i = kernel.shuffle xor %g, 1 width 32 : f32
// CSE-NEXT:  kernel.alloc_mbarriers 1
// CSE-NEXT:  kernel.alloc_mbarriers 1

// DCE-LABEL: kernel.func @effects
// DCE:       kernel.cp_async
// DCE-NEXT:  kernel.commit
// DCE-NEXT:  kernel.wait 0
// DCE:       kernel.shuffle
// DCE-NEXT:  kernel.shuffle
// DCE-NEXT:  kernel.alloc_mbarriers
// DCE-NEXT:  %q = kernel.alloc_mbarriers
// DCE-NEXT:  kernel.mbarrier_init %p[0], 1
// DCE-NEXT:  kernel.mbarrier_arrive %p[0]
// DCE-NEXT:  kernel.mbarrier_arrive %p[0]
// DCE-NEXT:  kernel.mbarrier_init %q[0], 1
// DCE-NEXT:  kernel.atomic_add
// DCE-NEXT:  kernel.atomic_add
// DCE-NEXT:  }

// CHECK-LABEL: kernel.func @effects
// CHECK:       kernel.mbarrier_arrive %p[0]
// CHECK-NEXT:  kernel.mbarrier_arrive %p[0]
kernel.func @effects(%x: memref<64xf32>) -> (%y: memref<64xf32> zeroed) grid 1 block 64 {
  %t = kernel.thread_id
  %s = kernel.alloc_shared : memref<64xf32, #kernel.shared>
  %a = kernel.load %s[%t] : memref<64xf32, #kernel.shared>
  %b = kernel.load %s[%t] : memref<64xf32, #kernel.shared>
  %c = arith.addf %a, %b : f32
  kernel.barrier
  %d = kernel.load %s[%t] : memref<64xf32, #kernel.shared>
  kernel.store %c, %s[%t] : memref<64xf32, #kernel.shared>
  %e = kernel.load %s[%t] : memref<64xf32, #kernel.shared>
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  scf.for %o = %c0 to %c4 step %c1 {
    kernel.store %d, %s[%t] : memref<64xf32, #kernel.shared>
    kernel.store %e, %s[%t] : memref<64xf32, #kernel.shared>
  }
  %f = kernel.load %s[%t] : memref<64xf32, #kernel.shared>
  kernel.cp_async %x[%t], %s[%t] elements 1 : memref<64xf32>, memref<64xf32, #kernel.shared>
  kernel.commit
  kernel.wait 0
  %g = kernel.load %s[%t] : memref<64xf32, #kernel.shared>
  %h = kernel.shuffle xor %g, 1 width 32 : f32
  %i = kernel.shuffle xor %g, 1 width 32 : f32
  %p = kernel.alloc_mbarriers 1
  %q = kernel.alloc_mbarriers 1
  kernel.mbarrier_init %p[0], 1
  kernel.mbarrier_arrive %p[0]
  kernel.mbarrier_arrive %p[0]
  kernel.mbarrier_init %q[0], 1
  kernel.atomic_add %f, %y[%t] : memref<64xf32>
  kernel.atomic_add %f, %y[%t] : memref<64xf32>
}

// -----

// What is computed of constants is one, rounded to its type, integers and index values as well;
// a quotient by 0, a pole, a shift by all bits and booleans with a sign are left to the machine.

// CHECK-LABEL: kernel.func @constants
// CHECK-NOT:   addf
// CHECK:       %u = arith.constant 302.826324 : f32
// CHECK:       %h = arith.constant 3.339840e-01 : bf16
// CHECK:       %q = arith.divsi %{{\S+}}, %{{\S+}} : i32
// CHECK:       %s = arith.shli %{{\S+}}, %{{\S+}} : i32
// CHECK:       %l = math.log %{{\S+}} : f32
// CHECK:       %p = arith.extsi %{{\S+}} : i1 to i32
// CHECK:       %w = arith.constant 8 : i64
// CHECK-NOT:   index_cast
kernel.func @constants(%x: memref<64xf32>) -> (%y: memref<64xf32>, %b: memref<64xbf16>,
    %i: memref<64xi32>, %j: memref<64xi64>) grid 1 block 32 {
  %t = kernel.thread_id
  %c2 = arith.constant 2.0 : f32
  %c3 = arith.constant 3.0 : f32
  %a = arith.addf %c2, %c3 : f32
  %e = math.exp %a : f32
  %d = arith.mulf %e, %c2 : f32
  %n = arith.constant 3 : i32
  %m = arith.addi %n, %n : i32
  %f = arith.sitofp %m : i32 to f32
  %g = arith.addf %d, %f : f32
  %r = arith.cmpf olt, %c2, %c3 : f32
  %u = arith.select %r, %g, %c2 : f32
  kernel.store %u, %y[%t] : memref<64xf32>
  %b1 = arith.constant 1.0 : bf16
  %b3 = arith.constant 3.0 : bf16
  %h = arith.divf %b1, %b3 : bf16
  kernel.store %h, %b[%t] : memref<64xbf16>
  %z = arith.constant 0 : i32
  %q = arith.divsi %n, %z : i32
  kernel.store %q, %i[%t] : memref<64xi32>
  %all = arith.constant 32 : i32
  %s = arith.shli %n, %all : i32
  kernel.store %s, %i[%t] : memref<64xi32>
  %zero = arith.constant 0.0 : f32
  %l = math.log %zero : f32
  kernel.store %l, %y[%t] : memref<64xf32>
  %true = arith.constant true
  %p = arith.extsi %true : i1 to i32
  kernel.store %p, %i[%t] : memref<64xi32>
  %c4 = arith.constant 4 : index
  %c8 = arith.addi %c4, %c4 : index
  %w = arith.index_cast %c8 : index to i64
  kernel.store %w, %j[%t] : memref<64xi64>
}
