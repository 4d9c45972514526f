# stalltop on every client of Nomad with a GPU: a recording, which is the tracer of the host, and metrics on its loopback.
#   nomad job run deploy/stalltop.nomad.hcl
# The clients need the driver docker with `allow_privileged = true` and `volumes { enabled = true }`. Look in:
#   nomad alloc exec -task record ALLOCATION stalltop
variable "image" {
  type    = string
  default = "stalltop"
}

job "stalltop" {
  type = "system"

  # Only where Docker has the runtime of NVIDIA, which brings libnvidia-ml.so.1 into the container.
  constraint {
    attribute = "${attr.driver.docker.runtimes}"
    operator  = "regexp"
    value     = "nvidia"
  }

  group "host" {
    task "record" {
      driver = "docker"

      config {
        image      = var.image
        privileged = true
        pid_mode   = "host"
        cgroupns   = "host"
        runtime    = "nvidia"
        args       = ["record", "--to", "/var/lib/stalltop/recording.stalltop", "--max-size", "1GiB", "--max-age", "14d"]
        volumes = [
          "/var/lib/stalltop:/var/lib/stalltop",
          "/run/stalltop:/run/stalltop",
          "/sys/fs/cgroup:/sys/fs/cgroup:ro",
        ]
      }

      env {
        NVIDIA_VISIBLE_DEVICES     = "all"
        NVIDIA_DRIVER_CAPABILITIES = "utility"
        XDG_STATE_HOME             = "/var/lib"
      }

      resources {
        cpu    = 200
        memory = 1024
      }
    }

    task "metrics" {
      driver = "docker"

      config {
        image        = var.image
        privileged   = true
        pid_mode     = "host"
        cgroupns     = "host"
        network_mode = "host"
        args         = ["metrics", "--listen", "127.0.0.1:9470"]
        volumes = [
          "/run/stalltop:/run/stalltop",
          "/sys/fs/cgroup:/sys/fs/cgroup:ro",
        ]
      }

      resources {
        cpu    = 100
        memory = 512
      }
    }
  }
}
