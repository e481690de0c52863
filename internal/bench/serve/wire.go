package serve

import (
	"context"
	"errors"
	"fmt"
	"net"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

const predictMethod = "/tensorflow.serving.PredictionService/Predict"

// rawCodec sends and receives messages as bytes.
type rawCodec struct{}

// Name returns the name of the codec whose messages these are.
func (rawCodec) Name() string { return "proto" }

// Marshal expects a *[]byte.
func (rawCodec) Marshal(v any) ([]byte, error) {
	b, ok := v.(*[]byte)
	if !ok {
		return nil, fmt.Errorf("bench serve: a message of type %T", v)
	}
	return *b, nil
}

// Unmarshal expects a *[]byte.
func (rawCodec) Unmarshal(data []byte, v any) error {
	b, ok := v.(*[]byte)
	if !ok {
		return fmt.Errorf("bench serve: a message of type %T", v)
	}
	*b = append((*b)[:0], data...)
	return nil
}

// maxMessage bounds requests and responses, in bytes.
const maxMessage = 64 << 20

// dial opens connections to a server.
func dial(address string, connections int) (all []*grpc.ClientConn, err error) {
	for range connections {
		c, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithDefaultCallOptions(grpc.ForceCodec(rawCodec{}), grpc.MaxCallRecvMsgSize(maxMessage), grpc.MaxCallSendMsgSize(maxMessage)))
		if err != nil {
			return nil, errors.Join(fmt.Errorf("bench serve: %s: %w", address, err), hangUp(all))
		}
		all = append(all, c)
	}
	return all, nil
}

func hangUp(all []*grpc.ClientConn) (err error) {
	for _, c := range all {
		err = errors.Join(err, c.Close())
	}
	return err
}

// Echo answers Predict calls with the given number of bytes until ctx ends.
func Echo(ctx context.Context, l net.Listener, bytes int) error {
	answer := make([]byte, bytes)
	s := grpc.NewServer(grpc.ForceServerCodec(rawCodec{}), grpc.MaxRecvMsgSize(maxMessage))
	predict := func(_ any, _ context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
		var in []byte
		if err := decode(&in); err != nil {
			return nil, err
		}
		return &answer, nil
	}
	s.RegisterService(&grpc.ServiceDesc{
		ServiceName: "tensorflow.serving.PredictionService", HandlerType: (*any)(nil),
		Methods: []grpc.MethodDesc{{MethodName: "Predict", Handler: predict}},
	}, nil)
	defer context.AfterFunc(ctx, s.Stop)()
	if err := s.Serve(l); err != nil && ctx.Err() == nil {
		return fmt.Errorf("bench serve: echo: %w", err)
	}
	return nil
}
