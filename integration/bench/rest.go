package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
)

// rest talks to Podman's API as any client of it would: the baseline.
type rest struct {
	http *http.Client
}

func newREST(socket string) *rest {
	return &rest{&http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", socket)
		},
		MaxIdleConnsPerHost: 32,
	}}}
}

func (r *rest) do(ctx context.Context, method, path string, body, into any) error {
	var in io.Reader
	if body != nil {
		raw, err := json.Marshal(body)
		if err != nil {
			return err
		}
		in = bytes.NewReader(raw)
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://d/v5.0.0/libpod"+path, in)
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := r.http.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode >= 300 {
		return fmt.Errorf("%s %s: %s: %s", method, path, resp.Status, raw)
	}
	if into != nil {
		return json.Unmarshal(raw, into)
	}
	return nil
}

// exec runs argv in a container: create, start attached until the end, inspect.
func (r *rest) exec(ctx context.Context, container string, argv ...string) error {
	var made struct{ ID string }
	err := r.do(ctx, "POST", "/containers/"+container+"/exec",
		map[string]any{"Cmd": argv, "AttachStdout": true, "AttachStderr": true}, &made)
	if err != nil {
		return err
	}
	if err := r.do(ctx, "POST", "/exec/"+made.ID+"/start", map[string]any{"Detach": false}, nil); err != nil {
		return err
	}
	var st struct{ ExitCode int }
	if err := r.do(ctx, "GET", "/exec/"+made.ID+"/json", nil, &st); err != nil {
		return err
	}
	if st.ExitCode != 0 {
		return fmt.Errorf("exec ended with %d", st.ExitCode)
	}
	return nil
}

// start creates and starts a container that only sleeps, with the options that
// any careful user of Podman sets.
func (r *rest) start(ctx context.Context, name, rootfs string, argv []string) error {
	spec := map[string]any{
		"name": name, "rootfs": rootfs, "command": argv,
		"netns": map[string]string{"nsmode": "none"}, "cap_drop": []string{"all"}, "no_new_privileges": true,
		"log_configuration": map[string]string{"driver": "none"}, "systemd": "false",
		"mounts": []map[string]any{{"type": "bind", "source": "/usr", "destination": "/usr", "options": []string{"ro", "rbind"}}},
	}
	if err := r.do(ctx, "POST", "/containers/create", spec, nil); err != nil {
		return err
	}
	return r.do(ctx, "POST", "/containers/"+name+"/start", nil, nil)
}

func (r *rest) remove(ctx context.Context, name string) error {
	return r.do(ctx, "DELETE", "/containers/"+name+"?force=true&timeout=0&v=true", nil, nil)
}
