// Package examplepb is tf.Example as protoc-gen-go makes it, generated from
// example.proto: what a Go program would decode TFRecord files with, and what
// package input compares package tfrecord with.
package examplepb

//go:generate protoc --go_out=. --go_opt=paths=source_relative example.proto
