// RUN: dlc-opt %s -t cuda | filecheck %s

// A function whose loop is as long as its arguments say is a call, computed in double.
// CHECK:      __device__ inline double legendre_p(double x, double degree) {
// CHECK:      __device__ inline double gamma_part(double a, double x, bool upper) {
// CHECK:      __device__ inline double igammac(double a, double x) {
// CHECK:      of_two(
// CHECK:        y[0] = legendre_p(x[0], x[1]);
// CHECK-NEXT:   z[0] = (float)igammac(n[0], n[1]);
// CHECK-NEXT: }
kernel.func @of_two(%x: memref<2xf64>, %n: memref<2xf32>) -> (%y: memref<1xf64>, %z: memref<1xf32>) grid 1 block 1 {
  %a = kernel.load %x[0] : memref<2xf64>
  %b = kernel.load %x[1] : memref<2xf64>
  %p = math.legendre_p %a, %b : f64
  kernel.store %p, %y[0] : memref<1xf64>
  %c = kernel.load %n[0] : memref<2xf32>
  %d = kernel.load %n[1] : memref<2xf32>
  %q = math.igammac %c, %d : f32
  kernel.store %q, %z[0] : memref<1xf32>
}
