-- Which class of hardware starts more slowly with the new version, and what moved with it?
-- A percentile is the value at the smallest rank that has its share of the pings at or below it. `_low` and `_high` are
-- order statistics: ranks as far away as chance moves the share, each machine counted as one independent start, because
-- the starts of one machine are alike. What the rules are: docs/fleet-sql.md.
-- `split` puts the machines of a version into groups by the first digit of their token, which is random: how much the
-- groups differ tells how sure a median and a mean are. No machine of one version is looked up in the other.
with cells as (
    select app, version, cpus, memory, disk, count(*) as n, count(distinct machine) as machines
    from pings
    where ('{app}' = '' or app = '{app}')
        and (version = '{old}' or version = '{new}')
    group by app, version, cpus, memory, disk
),
ranked as (
    select p.app as app, p.version as version, p.cpus as cpus, p.memory as memory, p.disk as disk, p.wall_us as wall_us, c.n as n, c.machines as machines,
        cast(row_number() over (partition by p.app, p.version, p.cpus, p.memory, p.disk order by p.wall_us) as bigint) as place
    from pings p
    join cells c on p.app = c.app and p.version = c.version and p.cpus = c.cpus and p.memory = c.memory and p.disk = c.disk
),
medians as (
    select r.app as app, r.version as version, r.cpus as cpus, r.memory as memory, r.disk as disk, r.n as n, r.machines as machines,
    {p50}
    from ranked r
    group by r.app, r.version, r.cpus, r.memory, r.disk, r.n, r.machines
),
split as (
    select app, version, cpus, memory, disk, substr(machine, 1, 1) as part, state, wall_us, user_us, system_us,
        major_faults, read_bytes,
        cast(row_number() over (
            partition by app, version, cpus, memory, disk, substr(machine, 1, 1) order by wall_us
        ) as bigint) as place,
        cast(count(*) over (
            partition by app, version, cpus, memory, disk, substr(machine, 1, 1)
        ) as bigint) as n
    from pings
    where ('{app}' = '' or app = '{app}')
        and (version = '{old}' or version = '{new}')
),
sums as (
    select app, version, cpus, memory, disk, part, count(*) as starts,
        min(case when 2 * place >= n then wall_us end) as part_p50,
        sum(user_us) as sum_user_us, sum(system_us) as sum_system_us, sum(major_faults) as sum_major_faults,
        count(read_bytes) as starts_with_bytes, coalesce(sum(read_bytes), 0) as sum_read_bytes,
        sum(case when state = 'cold' then 1 else 0 end) as cold,
        sum(case when state <> 'unknown' then 1 else 0 end) as told
    from split
    group by app, version, cpus, memory, disk, part
)
select s.app as app, s.version as version, s.cpus as cpus, s.memory as memory, s.disk as disk, m.n as n, m.machines as machines, m.p50 as p50, m.p50_low as p50_low, m.p50_high as p50_high,
    s.part as part, s.part_p50 as part_p50, s.starts as starts, s.sum_user_us as sum_user_us, s.sum_system_us as sum_system_us,
    s.sum_major_faults as sum_major_faults, s.starts_with_bytes as starts_with_bytes,
    s.sum_read_bytes as sum_read_bytes, s.cold as cold, s.told as told
from sums s
join medians m on m.app = s.app and m.version = s.version and m.cpus = s.cpus and m.memory = s.memory and m.disk = s.disk
order by s.app, s.version, s.cpus, s.memory, s.disk, s.part
