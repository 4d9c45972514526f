CREATE TABLE about (
  name TEXT PRIMARY KEY,
  value TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE hosts (
  host_id INTEGER PRIMARY KEY,
  name TEXT NOT NULL,
  clock_offset_ns INTEGER,
  clock_error_ns INTEGER,
  checksum INTEGER NOT NULL
);
CREATE TABLE tenants (
  tenant_id INTEGER PRIMARY KEY,
  host_id INTEGER NOT NULL REFERENCES hosts,
  id TEXT NOT NULL,
  described INTEGER NOT NULL,
  name TEXT NOT NULL,
  kind TEXT NOT NULL,
  runtime TEXT NOT NULL,
  container_id TEXT NOT NULL,
  pod TEXT NOT NULL,
  namespace TEXT NOT NULL,
  cgroup_id INTEGER NOT NULL,
  cgroup_path TEXT NOT NULL,
  container TEXT NOT NULL,
  pod_uid TEXT NOT NULL,
  user TEXT NOT NULL,
  labels TEXT NOT NULL,
  checksum INTEGER NOT NULL
);
CREATE TABLE processes (
  process_id INTEGER PRIMARY KEY,
  tenant_id INTEGER NOT NULL REFERENCES tenants,
  pid INTEGER NOT NULL,
  process TEXT NOT NULL,
  checksum INTEGER NOT NULL
);
CREATE TABLE series (
  series_id INTEGER PRIMARY KEY,
  host_id INTEGER NOT NULL REFERENCES hosts,
  tenant_id INTEGER NOT NULL REFERENCES tenants,
  pid INTEGER NOT NULL,
  process TEXT NOT NULL,
  layer TEXT NOT NULL,
  operation TEXT NOT NULL,
  nested INTEGER NOT NULL,
  device TEXT NOT NULL,
  checksum INTEGER NOT NULL
);
CREATE TABLE kernels (
  kernel_id INTEGER PRIMARY KEY,
  name TEXT NOT NULL,
  checksum INTEGER NOT NULL
);
CREATE TABLE coverage (
  coverage_id INTEGER PRIMARY KEY,
  attached INTEGER NOT NULL,
  functions INTEGER NOT NULL,
  libraries TEXT NOT NULL,
  missing TEXT NOT NULL,
  processes INTEGER NOT NULL,
  probe_ns REAL,
  way TEXT NOT NULL,
  tracing TEXT NOT NULL,
  scheduled TEXT NOT NULL,
  schedulable TEXT NOT NULL,
  driver TEXT NOT NULL,
  devices_unavailable TEXT NOT NULL,
  unknown TEXT NOT NULL,
  tenants TEXT NOT NULL,
  checksum INTEGER NOT NULL
);
CREATE TABLE limits (
  limits_id INTEGER PRIMARY KEY,
  cpu_quota REAL,
  quota_cgroup TEXT NOT NULL,
  memory_limit_bytes INTEGER,
  memory_cgroup TEXT NOT NULL,
  cpu_folder TEXT NOT NULL,
  cpu_version INTEGER NOT NULL,
  memory_folder TEXT NOT NULL,
  memory_version INTEGER NOT NULL,
  cpuset TEXT NOT NULL,
  checksum INTEGER NOT NULL
);
CREATE TABLE gpus (
  gpu_id INTEGER PRIMARY KEY,
  number INTEGER NOT NULL,
  uuid TEXT NOT NULL,
  name TEXT NOT NULL,
  memory_total_bytes INTEGER,
  power_limit_watts REAL,
  sm_clock_max_mhz INTEGER,
  pcie_generation_max INTEGER,
  pcie_width_max INTEGER,
  pci_bus_id TEXT NOT NULL,
  minor INTEGER,
  virtualization TEXT NOT NULL,
  compute_mode TEXT NOT NULL,
  persistence INTEGER,
  mig INTEGER,
  ecc INTEGER,
  memory_clock_max_mhz INTEGER,
  video_clock_max_mhz INTEGER,
  power_limit_default_watts REAL,
  slowdown_celsius REAL,
  shutdown_celsius REAL,
  bar1_total_bytes INTEGER,
  nvlinks INTEGER,
  host TEXT NOT NULL,
  checksum INTEGER NOT NULL
);
CREATE TABLE allotments (
  allotment_id INTEGER PRIMARY KEY,
  namespace TEXT NOT NULL,
  pod TEXT NOT NULL,
  pod_uid TEXT NOT NULL,
  container TEXT NOT NULL,
  resource TEXT NOT NULL,
  devices TEXT NOT NULL,
  tenant_id INTEGER NOT NULL REFERENCES tenants,
  checksum INTEGER NOT NULL
);
CREATE TABLE chain_texts (
  chain_text_id INTEGER PRIMARY KEY,
  id TEXT NOT NULL,
  cause TEXT NOT NULL,
  title TEXT NOT NULL,
  summary TEXT NOT NULL,
  process_id INTEGER NOT NULL REFERENCES processes,
  layer TEXT NOT NULL,
  operation TEXT NOT NULL,
  links TEXT NOT NULL,
  fixes TEXT NOT NULL,
  unknown TEXT NOT NULL,
  rows TEXT NOT NULL,
  checksum INTEGER NOT NULL
);
CREATE TABLE windows (
  window_id INTEGER PRIMARY KEY,
  host_id INTEGER NOT NULL REFERENCES hosts,
  start REAL NOT NULL,
  seconds REAL NOT NULL,
  level INTEGER NOT NULL,
  simulated INTEGER NOT NULL,
  split INTEGER NOT NULL,
  coverage_id INTEGER NOT NULL REFERENCES coverage,
  cost_percent REAL,
  swap_in_bytes INTEGER NOT NULL,
  swap_out_bytes INTEGER NOT NULL,
  calls_passed_over INTEGER NOT NULL,
  lost_ms_per_s REAL,
  worst INTEGER NOT NULL,
  began INTEGER NOT NULL,
  checksum INTEGER NOT NULL
);
CREATE TABLE counts (
  window_id INTEGER NOT NULL REFERENCES windows,
  place INTEGER NOT NULL,
  series_id INTEGER NOT NULL REFERENCES series,
  calls INTEGER NOT NULL,
  errors INTEGER NOT NULL,
  bytes INTEGER NOT NULL,
  total_ns INTEGER NOT NULL,
  max_ns INTEGER NOT NULL,
  running_ns INTEGER,
  runqueue_ns INTEGER,
  disk_ns INTEGER,
  memory_ns INTEGER,
  lock_ns INTEGER,
  gpu_ns INTEGER,
  network_ns INTEGER,
  process_ns INTEGER,
  sleep_ns INTEGER,
  other_ns INTEGER,
  normal_p50_ns INTEGER,
  normal_p99_ns INTEGER,
  PRIMARY KEY (window_id, place)
) WITHOUT ROWID;
CREATE TABLE histograms (
  window_id INTEGER NOT NULL REFERENCES windows,
  place INTEGER NOT NULL,
  payload BLOB NOT NULL,
  PRIMARY KEY (window_id, place)
) WITHOUT ROWID;
CREATE TABLE kernel_counts (
  window_id INTEGER NOT NULL REFERENCES windows,
  place INTEGER NOT NULL,
  series_id INTEGER NOT NULL REFERENCES series,
  kernel_id INTEGER NOT NULL REFERENCES kernels,
  calls INTEGER NOT NULL,
  errors INTEGER NOT NULL,
  total_ns INTEGER NOT NULL,
  max_ns INTEGER NOT NULL,
  buckets TEXT NOT NULL,
  PRIMARY KEY (window_id, place)
) WITHOUT ROWID;
CREATE TABLE charges (
  window_id INTEGER NOT NULL REFERENCES windows,
  place INTEGER NOT NULL,
  series_id INTEGER NOT NULL REFERENCES series,
  kind TEXT NOT NULL,
  culprit_id INTEGER NOT NULL REFERENCES processes,
  ns INTEGER NOT NULL,
  times INTEGER NOT NULL,
  PRIMARY KEY (window_id, place)
) WITHOUT ROWID;
CREATE TABLE block_io (
  window_id INTEGER NOT NULL REFERENCES windows,
  place INTEGER NOT NULL,
  process_id INTEGER NOT NULL REFERENCES processes,
  device TEXT NOT NULL,
  write INTEGER NOT NULL,
  requests INTEGER NOT NULL,
  bytes INTEGER NOT NULL,
  queued_ns INTEGER NOT NULL,
  service_ns INTEGER NOT NULL,
  max_ns INTEGER NOT NULL,
  PRIMARY KEY (window_id, place)
) WITHOUT ROWID;
CREATE TABLE tenant_use (
  window_id INTEGER NOT NULL REFERENCES windows,
  place INTEGER NOT NULL,
  tenant_id INTEGER NOT NULL REFERENCES tenants,
  cpu_ns INTEGER NOT NULL,
  periods INTEGER NOT NULL,
  throttled_periods INTEGER NOT NULL,
  throttled_ns INTEGER NOT NULL,
  reclaims INTEGER NOT NULL,
  reclaim_ns INTEGER NOT NULL,
  oom_kills INTEGER NOT NULL,
  refaults INTEGER NOT NULL,
  limit_hits INTEGER NOT NULL,
  limit_kills INTEGER NOT NULL,
  forks INTEGER NOT NULL,
  execs INTEGER NOT NULL,
  exits INTEGER NOT NULL,
  memory_used_bytes INTEGER,
  limits_id INTEGER NOT NULL REFERENCES limits,
  PRIMARY KEY (window_id, place)
) WITHOUT ROWID;
CREATE TABLE process_use (
  window_id INTEGER NOT NULL REFERENCES windows,
  place INTEGER NOT NULL,
  process_id INTEGER NOT NULL REFERENCES processes,
  cpu_ns INTEGER NOT NULL,
  minor_faults INTEGER NOT NULL,
  major_faults INTEGER NOT NULL,
  retransmits_v4 INTEGER NOT NULL,
  retransmits_v6 INTEGER NOT NULL,
  allocations INTEGER NOT NULL,
  frees INTEGER NOT NULL,
  allocated_bytes INTEGER NOT NULL,
  freed_bytes INTEGER NOT NULL,
  link INTEGER NOT NULL,
  threads INTEGER NOT NULL,
  allowed_cpus INTEGER NOT NULL,
  allowed TEXT NOT NULL,
  nice INTEGER NOT NULL,
  rss_bytes INTEGER NOT NULL,
  swap_bytes INTEGER NOT NULL,
  held_bytes INTEGER,
  held INTEGER NOT NULL,
  parent_pid INTEGER NOT NULL,
  PRIMARY KEY (window_id, place)
) WITHOUT ROWID;
CREATE TABLE ranks (
  window_id INTEGER NOT NULL REFERENCES windows,
  place INTEGER NOT NULL,
  communicator TEXT NOT NULL,
  process_id INTEGER NOT NULL REFERENCES processes,
  rank INTEGER NOT NULL,
  ranks INTEGER NOT NULL,
  local_ranks INTEGER NOT NULL,
  collectives INTEGER NOT NULL,
  joined INTEGER NOT NULL,
  late_ns INTEGER NOT NULL,
  last INTEGER NOT NULL,
  behind INTEGER NOT NULL,
  since_entry_ns INTEGER NOT NULL,
  entered INTEGER NOT NULL,
  PRIMARY KEY (window_id, place)
) WITHOUT ROWID;
CREATE TABLE events (
  window_id INTEGER NOT NULL REFERENCES windows,
  place INTEGER NOT NULL,
  time REAL,
  kind TEXT NOT NULL,
  process_id INTEGER NOT NULL REFERENCES processes,
  text TEXT NOT NULL,
  PRIMARY KEY (window_id, place)
) WITHOUT ROWID;
CREATE TABLE activity (
  window_id INTEGER NOT NULL REFERENCES windows,
  place INTEGER NOT NULL,
  device TEXT NOT NULL,
  tenant_id INTEGER NOT NULL REFERENCES tenants,
  active_ns INTEGER NOT NULL,
  PRIMARY KEY (window_id, place)
) WITHOUT ROWID;
CREATE TABLE overlaps (
  window_id INTEGER NOT NULL REFERENCES windows,
  place INTEGER NOT NULL,
  device TEXT NOT NULL,
  tenant_id INTEGER NOT NULL REFERENCES tenants,
  other_id INTEGER NOT NULL REFERENCES tenants,
  ns INTEGER NOT NULL,
  PRIMARY KEY (window_id, place)
) WITHOUT ROWID;
CREATE TABLE allocations (
  window_id INTEGER NOT NULL REFERENCES windows,
  place INTEGER NOT NULL,
  allotment_id INTEGER NOT NULL REFERENCES allotments,
  PRIMARY KEY (window_id, place)
) WITHOUT ROWID;
CREATE TABLE calls (
  window_id INTEGER NOT NULL REFERENCES windows,
  place INTEGER NOT NULL,
  series_id INTEGER NOT NULL REFERENCES series,
  tid INTEGER NOT NULL,
  start_ns INTEGER NOT NULL,
  duration_ns INTEGER NOT NULL,
  split_ns TEXT,
  bytes INTEGER NOT NULL,
  returned INTEGER,
  arguments TEXT NOT NULL,
  kernel_id INTEGER NOT NULL REFERENCES kernels,
  why TEXT NOT NULL,
  PRIMARY KEY (window_id, place)
) WITHOUT ROWID;
CREATE TABLE open_calls (
  window_id INTEGER NOT NULL REFERENCES windows,
  place INTEGER NOT NULL,
  series_id INTEGER NOT NULL REFERENCES series,
  tid INTEGER NOT NULL,
  age_ns INTEGER NOT NULL,
  ended INTEGER NOT NULL,
  PRIMARY KEY (window_id, place)
) WITHOUT ROWID;
CREATE TABLE devices (
  window_id INTEGER NOT NULL REFERENCES windows,
  place INTEGER NOT NULL,
  gpu_id INTEGER NOT NULL REFERENCES gpus,
  utilization_percent REAL,
  memory_utilization_percent REAL,
  memory_used_bytes INTEGER,
  power_watts REAL,
  temperature_celsius REAL,
  sm_clock_mhz INTEGER,
  throttle_reasons TEXT NOT NULL,
  processes TEXT NOT NULL,
  pcie_generation INTEGER,
  pcie_width INTEGER,
  remap_pending INTEGER,
  pcie_replays INTEGER,
  ecc_corrected INTEGER,
  ecc_uncorrected INTEGER,
  power_held_ns INTEGER,
  thermal_held_ns INTEGER,
  xids TEXT NOT NULL,
  lost INTEGER NOT NULL,
  notes TEXT NOT NULL,
  ages TEXT NOT NULL,
  performance_state INTEGER,
  instances TEXT NOT NULL,
  encoder_percent REAL,
  decoder_percent REAL,
  sm_active_percent REAL,
  sm_occupancy_percent REAL,
  tensor_percent REAL,
  dram_percent REAL,
  memory_clock_mhz INTEGER,
  video_clock_mhz INTEGER,
  energy_millijoules INTEGER,
  memory_temperature_celsius REAL,
  fan_percent REAL,
  bar1_used_bytes INTEGER,
  sync_boost_held_ns INTEGER,
  board_limit_held_ns INTEGER,
  reliability_held_ns INTEGER,
  software_thermal_held_ns INTEGER,
  hardware_thermal_held_ns INTEGER,
  power_brake_held_ns INTEGER,
  pcie_rx_bytes_per_second INTEGER,
  pcie_tx_bytes_per_second INTEGER,
  nvlinks_active INTEGER,
  nvlink_rx_bytes INTEGER,
  nvlink_tx_bytes INTEGER,
  nvlink_errors INTEGER,
  ecc_corrected_lifetime INTEGER,
  ecc_uncorrected_lifetime INTEGER,
  retired_pages INTEGER,
  retirement_pending INTEGER,
  remapped_corrected INTEGER,
  remapped_uncorrected INTEGER,
  remap_failed INTEGER,
  PRIMARY KEY (window_id, place)
) WITHOUT ROWID;
CREATE TABLE system (
  window_id INTEGER NOT NULL REFERENCES windows,
  place INTEGER NOT NULL,
  cpus INTEGER NOT NULL,
  cpu_percent REAL,
  cpu_each_percent TEXT NOT NULL,
  memory_total_bytes INTEGER NOT NULL,
  memory_used_bytes INTEGER NOT NULL,
  swap_total_bytes INTEGER NOT NULL,
  swap_used_bytes INTEGER NOT NULL,
  load TEXT NOT NULL,
  uptime_seconds REAL,
  clock_error_ns INTEGER,
  PRIMARY KEY (window_id, place)
) WITHOUT ROWID;
CREATE TABLE chains (
  window_id INTEGER NOT NULL REFERENCES windows,
  place INTEGER NOT NULL,
  chain_text_id INTEGER NOT NULL REFERENCES chain_texts,
  severity TEXT NOT NULL,
  lost_ms_per_s REAL,
  confidence REAL,
  figures TEXT NOT NULL,
  p99_ns INTEGER,
  normal_p99_ns INTEGER,
  calls INTEGER NOT NULL,
  since REAL,
  seen REAL,
  open INTEGER NOT NULL,
  PRIMARY KEY (window_id, place)
) WITHOUT ROWID;
CREATE TABLE losses (
  window_id INTEGER NOT NULL REFERENCES windows,
  place INTEGER NOT NULL,
  name TEXT NOT NULL,
  count INTEGER NOT NULL,
  PRIMARY KEY (window_id, place)
) WITHOUT ROWID;
