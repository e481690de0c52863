// Package network describes the network of a model as a list of operations, made from the
// configuration and the shape of the input. The CPU step, devices, the ONNX export, the graph of
// TensorBoard and the checks of configurations read this one description. A kind of network is one
// file, such as dcn.go, and its line in Kinds.
package network
