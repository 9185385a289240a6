package client

import (
	"context"
	"net/http"

	"realm.dev/contract"
)

// CallOptions say how a call is made.
type CallOptions struct {
	// ID names the call. With it the call goes on when the connection is
	// lost, and the same call again fetches its result. Without it the call
	// ends with ctx or the connection.
	ID string
	// Output takes what an exec prints while it runs, in order for each of
	// "stdout" and "stderr", with the offset of the first byte. It must be
	// quick when the call has an ID: for a reader that falls behind by seconds
	// the rest of the output is left out, and only the result has its head and
	// tail.
	Output func(stream string, offset int64, p []byte)
}

// Call runs one tool call. That the tool failed is in the result; the error
// says that the call was refused as a request, or that nobody answered. One
// error comes with a result: LIMIT_EXCEEDED, when output was left out.
func (c *Client) Call(ctx context.Context, call *contract.ToolCall, o CallOptions) (contract.ToolResult, error) {
	body, err := contract.Encode(*call)
	if err != nil {
		return contract.ToolResult{}, err
	}
	r := request{method: http.MethodPost, path: "/v1/calls", body: body, key: o.ID}
	if o.Output == nil {
		return fetch[contract.ToolResult](ctx, c, r, contract.MaxResultBytes)
	}
	r.accept = typeNDJSON
	return c.stream(ctx, r, o)
}

// stream reads frames until the result.
func (c *Client) stream(ctx context.Context, r request, o CallOptions) (contract.ToolResult, error) {
	body, err := c.do(ctx, r)
	if err != nil {
		return contract.ToolResult{}, err
	}
	defer body.Close()
	frames := newLines[contract.Frame](body, contract.MaxResultBytes)
	var slow error
	for {
		frame, err := frames.next(ctx)
		if err != nil {
			return contract.ToolResult{}, err
		}
		switch frame.Type {
		case contract.FrameResult:
			return *frame.Result, slow
		case contract.FrameOutput:
			data, err := contract.DecodeContent(frame.Output.Data, frame.Output.Encoding)
			if err != nil {
				return contract.ToolResult{}, contract.Errorf(contract.Internal, "control socket: output is not in its encoding").WithCause(err)
			}
			o.Output(frame.Output.Stream, frame.Output.Offset, data)
		case contract.FrameError:
			slow = &frame.Error.Error
		default:
			return contract.ToolResult{}, contract.Errorf(contract.Internal, "control socket: a frame that does not belong to a call")
		}
	}
}
