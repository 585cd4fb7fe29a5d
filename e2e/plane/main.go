// Command plane holds the parts of a Kubernetes control plane as sub-commands of one binary, so that
// tests need neither a container runtime nor downloaded releases.
package main

import (
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllers "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
)

// tetherFlag, when it is the first argument, ties the life of the process to its standard input:
// whoever holds the other end of the pipe may die in any way, and nothing is left running.
const tetherFlag = "--tethered"

func commands() map[string]func(args []string) int {
	return map[string]func(args []string) int{
		"etcd":                    runEtcd,
		"keys":                    writeKeys,
		"kube-apiserver":          component(apiserver.NewAPIServerCommand),
		"kube-controller-manager": component(controllers.NewControllerManagerCommand),
		"kube-scheduler": component(func() *cobra.Command {
			return scheduler.NewSchedulerCommand()
		}),
	}
}

func main() {
	args := os.Args[1:]
	if len(args) > 0 && args[0] == tetherFlag {
		args = args[1:]
		go exitWithStdin()
	}
	if len(args) == 0 {
		os.Exit(usage("no command given"))
	}
	run, ok := commands()[args[0]]
	if !ok {
		os.Exit(usage(fmt.Sprintf("no command %q", args[0])))
	}
	os.Exit(run(args))
}

// component turns a Kubernetes command into one of ours. The components read os.Args themselves.
func component(command func() *cobra.Command) func([]string) int {
	return func(args []string) int {
		os.Args = args
		return cli.Run(command())
	}
}

func exitWithStdin() {
	_, _ = io.Copy(io.Discard, os.Stdin)
	fmt.Fprintln(os.Stderr, "plane: standard input closed, leaving")
	os.Exit(1)
}

func usage(problem string) int {
	names := slices.Sorted(maps.Keys(commands()))
	fmt.Fprintf(os.Stderr, "plane: %s\nusage: plane [%s] COMMAND [ARGUMENT...]\ncommands: %s\n",
		problem, tetherFlag, strings.Join(names, ", "))
	return 2
}

func fail(command string, err error) int {
	fmt.Fprintf(os.Stderr, "plane %s: %v\n", command, err)
	return 1
}
