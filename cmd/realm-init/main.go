// The limits of the session's cgroup do not size init, which runs on one
// processor, and watching them would hold descriptors open.
//
//go:debug containermaxprocs=0
//go:debug updatemaxprocs=0

// Command realm-init is the first process of a session's container. Package
// pid1 says what it does.
package main

import (
	"os"

	"realm.dev/container/guest/pid1"
)

func main() {
	os.Exit(pid1.Main(os.Args))
}
