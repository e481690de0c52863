// Package device computes training steps on a GPU, between the pull of the rows and the push of
// their gradients. It implements step.Device.
//
// Parameters, optimizer state, gradients and activations are in the device's memory. A step
// copies the distinct rows, the places of their values and the labels to the device. It copies
// the logits and the gradients of the rows and the parameters back:
//
//	copy in   distinct rows, places of the values, dense inputs, labels, weights, sample numbers
//	pool      the input of the networks and the wide logits, with the bits of the CPU
//	forward   products by cuBLAS, all else by internal/gpu/kernel; the hosts sum the
//	          statistics of batch normalisation
//	backward  first the gradient of the input and of the rows, in the order of the samples; then
//	          the gradients of weights and biases, while the first is copied back; then these are
//	          copied back
//	sync      NCCL sums buckets of gradients on a second stream, each as soon as its gradients
//	          are computed; or the ranks sum them in the host's memory, by package collective
//	update    the sum is copied in, and the update rules give the same bits as on the CPU
//
// Parameters are aligned on the device and packed in the arena, so each is copied to or from
// pinned memory by the host, and all of them together to or from the device.
//
// Repeated steps have the same bits on one kind of device. Sums over a batch have another
// order than on the CPU, so results differ from the CPU's by rounding. The configuration
// rejects what the device cannot compute.
//
// The package is for builds with the tag gpu, and has never run on hardware: its tests run
// over the stand-ins of internal/gpu/cudatest.
package device
