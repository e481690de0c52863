// Package controlpb is the wire form of the control plane, generated from
// control.proto. Programs use package internal/control instead. The generated server interface
// can be implemented without embedding anything: a missing method is a compile error.
package controlpb

//go:generate protoc --go_out=. --go_opt=paths=source_relative --go-grpc_out=. --go-grpc_opt=paths=source_relative,require_unimplemented_servers=false control.proto
